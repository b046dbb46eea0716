package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"varve/internal/console"
)

func nodetoolSnapshot(ctx context.Context, c *console.Client, w io.Writer, tag, table string, keyspaces []string) error {
	if table != "" && len(keyspaces) != 1 {
		return usageError("--table needs exactly one keyspace")
	}
	if len(keyspaces) > 1 {
		return usageError("a snapshot holds the whole store; name one keyspace or none")
	}
	var r console.SnapshotRequest
	r.Name = tag
	what := "all keyspaces"
	if len(keyspaces) == 1 {
		r.Keyspace, what = keyspaces[0], keyspaces[0]
		if table != "" {
			r.Tables = []string{table}
			what += "." + table
		}
	}
	var s console.Snapshot
	if err := c.Call(ctx, "/v1/snapshot", r, &s); err != nil {
		return err
	}
	fmt.Fprintf(w, "Requested creating snapshot(s) for [%s] with snapshot name [%s] and options {skipFlush=false}\n"+
		"Snapshot directory: %s\n", what, s.Name, s.Name)
	return nil
}

func nodetoolListSnapshots(ctx context.Context, c *console.Client, w io.Writer, _ []string) error {
	var list []console.Snapshot
	if err := c.Call(ctx, "/v1/snapshots", nil, &list); err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintln(w, "Snapshot Details: \nThere are no snapshots")
		return nil
	}
	fmt.Fprintln(w, "Snapshot Details: ")
	rows := [][]string{{"Snapshot name", "Keyspace name", "Column family name", "True size", "Creation time"}}
	var total int64
	for _, s := range list {
		total += s.DiskBytes
		for i, t := range s.Tables {
			ks, table, _ := strings.Cut(t, ".")
			size := "?" // taken before sizes were kept
			if i < len(s.TableBytes) {
				size = sizeText(s.TableBytes[i])
			}
			rows = append(rows, []string{s.Name, ks, table, size, s.Created.Format("2006-01-02T15:04:05.000Z")})
		}
	}
	writeColumns(w, " ", rows)
	fmt.Fprintf(w, "\nTotal TrueDiskSpaceUsed: %s\n\n", sizeText(total))
	return nil
}

func nodetoolClearSnapshot(ctx context.Context, c *console.Client, w io.Writer, tag string, all bool) error {
	switch {
	case !all && tag == "":
		return usageError("specify snapshot name or --all")
	case all && tag != "":
		return usageError("specify only one of snapshot name or --all")
	}
	if err := c.Call(ctx, "/v1/clearsnapshot", console.ClearRequest{Name: tag, All: all}, nil); err != nil {
		return err
	}
	what := "snapshot name [" + tag + "]"
	if all {
		what = "[all snapshots]"
	}
	fmt.Fprintf(w, "Requested clearing snapshot(s) for [all keyspaces] with %s\n", what)
	return nil
}
