package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"varve/internal/config"
	"varve/internal/console"
)

// nodetoolFunc is one command: it calls the server and writes what it learnt.
type nodetoolFunc func(ctx context.Context, c *console.Client, w io.Writer, args []string) error

// newNodetool makes the commands that Cassandra's nodetool has, in its own
// output form. They reach the server over the socket in its data directory.
func newNodetool() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "nodetool",
		Short: "Administer a running server, as Cassandra's nodetool does",
		RunE:  commandOnly,
	}
	addDataFlag(cmd, &data)
	call := func(use, short string, f nodetoolFunc) *cobra.Command {
		var args cobra.PositionalArgs
		if !strings.Contains(use, " ") {
			args = noArgs
		}
		sub := &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
			err := f(cmd.Context(), console.NewClient(socketOf(data)), cmd.OutOrStdout(), args)
			if errors.Is(err, console.ErrBadRequest) {
				text := strings.TrimPrefix(err.Error(), console.ErrBadRequest.Error()+": ")
				fmt.Fprintf(cmd.ErrOrStderr(), "nodetool: %s\nSee 'varve nodetool --help'.\n", text)
				return exitError{1}
			}
			return err
		}}
		cmd.AddCommand(sub)
		return sub
	}
	call("status [KEYSPACE]", "Print the state, load and tokens of the node", nodetoolStatus)
	tokens := false
	info := call("info", "Print information on the node", func(ctx context.Context, c *console.Client, w io.Writer, _ []string) error {
		return nodetoolInfo(ctx, c, w, tokens)
	})
	info.Flags().BoolVarP(&tokens, "tokens", "T", false, "show all tokens")
	call("version", "Print the Cassandra version that is followed", nodetoolVersion)
	call("describecluster", "Print the cluster's name, schema version and keyspaces", nodetoolDescribeCluster)
	call("flush [KEYSPACE [TABLE ...]]", "Write memtables to disk", nodetoolTables("/v1/flush"))
	call("compact [KEYSPACE [TABLE ...]]", "Compact tables", nodetoolTables("/v1/compact"))
	call("tablestats [KEYSPACE | KEYSPACE.TABLE ...]", "Print statistics on tables", nodetoolTableStats)
	call("disableautocompaction", "Keep the store from compacting on its own, until the next start", nodetoolAutoCompaction(false))
	call("enableautocompaction", "Let the store compact on its own again", nodetoolAutoCompaction(true))
	call("statusautocompaction", "Print whether the store compacts on its own", nodetoolAutoCompactionStatus)
	call("settombstonethresholds WARN FAIL", "Set the tombstone thresholds until the next start", nodetoolSetThresholds)
	call("gettombstonethresholds", "Print the tombstone thresholds", nodetoolGetThresholds)
	var category string
	var expand bool
	guardrails := call("getguardrailsconfig [NAME]", "Print the guardrails in force",
		func(ctx context.Context, c *console.Client, w io.Writer, args []string) error {
			return nodetoolGetGuardrails(category, expand)(ctx, c, w, args)
		})
	guardrails.Flags().StringVarP(&category, "category", "c", "", "only values, thresholds, flags or others")
	guardrails.Flags().BoolVar(&expand, "expand", false, "print the names that the configuration has")
	set := call("setguardrailsconfig NAME VALUE [VALUE]", "Set a guardrail until the next start: true or false, or the fail and the warn threshold",
		nodetoolSetGuardrails)
	takeNegatives(set, &data)
	takeNegatives(call("settings [NAME [VALUE]]", "Print the settings in force, or set one that may change while the server runs",
		nodetoolSettings), &data)
	var tag, table string
	snapshot := call("snapshot [KEYSPACE ...]", "Take a snapshot", func(ctx context.Context, c *console.Client, w io.Writer, args []string) error {
		return nodetoolSnapshot(ctx, c, w, tag, table, args)
	})
	snapshot.Flags().StringVarP(&tag, "tag", "t", "", "the snapshot's name")
	snapshot.Flags().StringVar(&table, "table", "", "only this table of the keyspace")
	call("listsnapshots", "List snapshots", nodetoolListSnapshots)
	var clearTag string
	var all bool
	clear := call("clearsnapshot", "Remove snapshots", func(ctx context.Context, c *console.Client, w io.Writer, args []string) error {
		return nodetoolClearSnapshot(ctx, c, w, clearTag, all)
	})
	clear.Flags().StringVarP(&clearTag, "tag", "t", "", "the snapshot's name")
	clear.Flags().BoolVar(&all, "all", false, "remove all snapshots")
	seconds := 10
	prof := call("profile FILE", "Write a CPU profile of the server, for go tool pprof",
		func(ctx context.Context, c *console.Client, _ io.Writer, args []string) error {
			return nodetoolProfile(ctx, c, seconds, args)
		})
	prof.Flags().IntVar(&seconds, "seconds", seconds, "how long to look")
	return cmd
}

func nodetoolProfile(ctx context.Context, c *console.Client, seconds int, args []string) error {
	if len(args) != 1 {
		return usageError("profile takes a file to write")
	}
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	return errors.Join(c.Copy(ctx, fmt.Sprintf("/v1/profile?seconds=%d", seconds), f), f.Close())
}

// addDataFlag adds --data, which finds the admin socket.
func addDataFlag(cmd *cobra.Command, data *string) {
	dir := config.Default().DataDirectories[0]
	if env := os.Getenv(config.EnvPrefix + "DATA_DIRECTORIES"); env != "" {
		dir, _, _ = strings.Cut(env, ",")
	}
	cmd.PersistentFlags().StringVar(data, "data", dir, "the server's (first) data directory")
}

func socketOf(data string) string { return filepath.Join(data, "admin.sock") }

func nodetoolTables(path string) func(context.Context, *console.Client, io.Writer, []string) error {
	return func(ctx context.Context, c *console.Client, _ io.Writer, args []string) error {
		var r console.TablesRequest
		if len(args) > 0 {
			r = console.TablesRequest{Keyspace: args[0], Tables: args[1:]}
		}
		return c.Call(ctx, path, r, nil)
	}
}
