package cli

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"varve/internal/bulk"
)

func newImport() *cobra.Command {
	var (
		conn        connection
		columns     []string
		header      bool
		concurrency int
		restart     bool
	)
	cmd := &cobra.Command{
		Use:   "import KEYSPACE.TABLE FILE.csv",
		Short: "Store the records of a CSV file",
		Long: "Store the records of a CSV file in a table of any CQL server.\n\n" +
			"An import that was interrupted goes on where it was (FILE.csv.import holds the place);\n" +
			"records that cannot be stored go to FILE.csv.rejected with the line and the reason,\n" +
			"and make the exit code 3.\n" +
			"Empty fields are null; collections, tuples and user types are JSON.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError("import takes a table and a file")
			}
			table, err := bulk.ParseTable(args[0], columns)
			if err != nil {
				return usageError("%w", err)
			}
			c, err := conn.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			f, err := newImportFiles(args[1], args[0], restart)
			if err != nil {
				return err
			}
			defer f.close()
			p := newProgress("rows")
			p.resumed(f.state.Records, f.state.Bytes)
			done, err := bulk.Import(cmd.Context(), c, f.in, bulk.ImportOptions{
				Table: table, Header: header, Concurrency: concurrency, Resume: f.state.Done, TotalBytes: f.size,
				Checkpoint: f.checkpoint, Rejected: f.reject, Progress: p.show,
			})
			p.finish(done.Records)
			if err != nil && done.Records > 0 {
				return fmt.Errorf("import %s: %w (run the same command again to go on)", args[1], err)
			}
			if err != nil {
				return fmt.Errorf("import %s: %w", args[1], err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d records stored, %d rejected\n", done.Records-done.Rejected, done.Rejected)
			if err := f.finish(); err != nil {
				return err
			}
			if done.Rejected > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "the rejected records and why are in %s.rejected\n", args[1])
				return exitError{exitRejected}
			}
			return nil
		},
	}
	conn.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&columns, "columns", nil, "the columns of the file, in order; all of the table's by default")
	f.BoolVar(&header, "header", false, "the first record names the columns")
	f.IntVar(&concurrency, "concurrency", 128, "requests in flight")
	f.BoolVar(&restart, "restart", false, "begin at the start, whatever an earlier import did")
	return cmd
}

// exitRejected is import's exit code when all was read but some records were rejected.
const exitRejected = 3

// importState is what FILE.import holds.
type importState struct {
	Table string
	Size  int64
	bulk.Done
	RejectedBytes int64 // of FILE.rejected, as far as Done tells of it
}

type importFiles struct {
	path     string
	in       *os.File
	size     int64
	state    importState
	rejected *csv.Writer // nil until there is something to write
	rejectF  *os.File
}

func newImportFiles(path, table string, restart bool) (*importFiles, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := in.Stat()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	f := &importFiles{path: path, in: in, size: info.Size(), state: importState{Table: table, Size: info.Size()}}
	text, err := os.ReadFile(f.statePath())
	if errors.Is(err, os.ErrNotExist) || restart {
		// What an earlier import rejected is no news of this one.
		if err := os.Remove(f.rejectedPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, errors.Join(err, in.Close())
		}
		return f, nil
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	var s importState
	if err := json.Unmarshal(text, &s); err != nil || s.Table != table || s.Size != info.Size() {
		return nil, errors.Join(fmt.Errorf("%s is of an import of another table or another file; --restart begins anew", f.statePath()), in.Close())
	}
	f.state = s
	return f, nil
}

func (f *importFiles) statePath() string { return f.path + ".import" }

func (f *importFiles) rejectedPath() string { return f.path + ".rejected" }

// checkpoint remembers how far the import is; the file is replaced whole.
func (f *importFiles) checkpoint(d bulk.Done) error {
	if f.rejected != nil {
		f.rejected.Flush()
		at, err := f.rejectF.Seek(0, io.SeekCurrent)
		if err := errors.Join(f.rejected.Error(), err); err != nil {
			return fmt.Errorf("write rejected records: %w", err)
		}
		f.state.RejectedBytes = at
	}
	f.state.Done = d
	text, err := json.Marshal(f.state)
	if err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+".import.tmp")
	if err := os.WriteFile(tmp, text, 0o644); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return os.Rename(tmp, f.statePath())
}

func (f *importFiles) reject(r bulk.Reject) error {
	if f.rejected == nil {
		out, err := os.OpenFile(f.rejectedPath(), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("open file of rejected records: %w", err)
		}
		// Records after the last checkpoint are read, and rejected, again.
		_, err = out.Seek(f.state.RejectedBytes, io.SeekStart)
		if err := errors.Join(out.Truncate(f.state.RejectedBytes), err); err != nil {
			return errors.Join(fmt.Errorf("go on in file of rejected records: %w", err), out.Close())
		}
		f.rejectF, f.rejected = out, csv.NewWriter(out)
	}
	return f.rejected.Write(append([]string{strconv.Itoa(r.Line), r.Reason}, r.Record...))
}

// finish removes the checkpoint of an import that is complete.
func (f *importFiles) finish() error {
	if f.rejected != nil {
		f.rejected.Flush()
		if err := f.rejected.Error(); err != nil {
			return err
		}
	}
	if err := os.Remove(f.statePath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (f *importFiles) close() {
	_ = f.in.Close()
	if f.rejectF != nil {
		f.rejected.Flush()
		_ = f.rejectF.Close()
	}
}
