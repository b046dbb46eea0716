package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"varve/internal/backup"
	"varve/internal/console"
	"varve/internal/schema"
	"varve/internal/store"
)

// exitUndone is the exit code of a restore, or its check, that would undo deletions.
const exitUndone = 3

// restoreCheck asks which deletions a restore would undo.
type restoreCheck struct {
	live, journal []string // directories of the store that the backup was made of
	only          bool     // check, restore nothing
	allow         bool     // restore all the same
}

// run compares the backup with the live store, and fails where a restore would
// undo deletions and that was not allowed.
func (c *restoreCheck) run(ctx context.Context, w io.Writer, dir, name string) error {
	if len(c.live) == 0 {
		if c.only {
			return usageError("backup restore --check compares the backup with the store it was made of: name its data directories with --live")
		}
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	u, err := c.ask(ctx, dir, name)
	if err != nil {
		return err
	}
	if !u.Any() {
		fmt.Fprintf(w, "restoring backup %s would undo no deletion\n", name)
		return nil
	}
	writeUndone(w, name, u)
	if !c.only && c.allow {
		return nil
	}
	if !c.only {
		fmt.Fprintln(w, "nothing was restored; --allow-undo restores all the same")
	}
	return exitError{exitUndone}
}

// ask compares in the running server, or, where none runs, here.
func (c *restoreCheck) ask(ctx context.Context, dir, name string) (*backup.Undone, error) {
	u := &backup.Undone{}
	err := console.NewClient(socketOf(c.live[0])).Stream(ctx, "/v1/wouldundo",
		console.BackupRequest{Dir: dir, Name: name}, func(step console.Progress) {
			if step.Finished {
				_ = json.Unmarshal(step.Result, u)
			}
		})
	if !errors.Is(err, console.ErrNoServer) {
		return u, err
	}
	st, err := store.Open(ctx, store.Options{DataDirs: c.live, JournalDirs: c.journal, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	cat, err := schema.Open(ctx, st)
	if err == nil {
		u, err = backup.WouldUndo(ctx, dir, name, st, cat.Snapshot(), time.Now().Unix())
	}
	return u, errors.Join(err, st.Close())
}

func writeUndone(w io.Writer, name string, u *backup.Undone) {
	fmt.Fprintf(w, "restoring backup %s would bring back what was deleted, or has expired, since:\n", name)
	rows := [][]string{{"Table", "Rows", "Values", "Why", "For example"}}
	for _, t := range u.Tables {
		why := "deleted or expired"
		if t.Dropped {
			why = "table dropped"
		}
		rows = append(rows, []string{
			t.Keyspace + "." + t.Table, fmt.Sprint(t.Rows), fmt.Sprint(t.Cells), why, strings.Join(t.Examples, "  "),
		})
	}
	writeColumns(w, "  ", rows)
}
