package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"varve/internal/backup"
	"varve/internal/console"
)

func newBackup() *cobra.Command {
	cmd := &cobra.Command{Use: "backup", Short: "Make, list, verify and restore backups of a whole store", RunE: commandOnly}
	cmd.AddCommand(newBackupCreate(), newBackupList(), newBackupVerify(), newBackupRestore())
	return cmd
}

func newBackupCreate() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "create DIR [NAME]",
		Short: "Make the backup DIR/NAME of the running server's store",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError("backup create takes a directory and a name")
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			name := time.Now().UTC().Format("20060102T150405Z")
			if len(args) == 2 {
				name = args[1]
			}
			p := newProgress("bytes")
			var m backup.Manifest
			err = console.NewClient(socketOf(data)).Stream(cmd.Context(), "/v1/backup",
				console.BackupRequest{Dir: dir, Name: name}, func(step console.Progress) {
					if step.Finished {
						_ = json.Unmarshal(step.Result, &m)
						return
					}
					p.show(step.Done, step.Done, step.Total)
				})
			if err != nil {
				return fmt.Errorf("backup: %w", err)
			}
			p.finish(m.Bytes)
			fmt.Fprintf(cmd.OutOrStdout(), "backup %s made, %s, state of %s\n", m.Name, sizeText(m.Bytes), m.Taken.UTC().Format(time.RFC3339))
			return nil
		},
	}
	addDataFlag(cmd, &data)
	return cmd
}

func newBackupList() *cobra.Command {
	return &cobra.Command{
		Use:   "list DIR",
		Short: "List the backups in DIR",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("backup list takes a directory")
			}
			list, err := backup.List(args[0])
			if err != nil {
				return err
			}
			rows := [][]string{{"Name", "Taken", "Size", "Files", "Shards", "Damage"}}
			for _, m := range list {
				rows = append(rows, []string{
					m.Name, m.Taken.UTC().Format(time.RFC3339), sizeText(m.Bytes),
					strconv.Itoa(len(m.Files)), strconv.Itoa(m.Shards), m.Damage,
				})
			}
			writeColumns(cmd.OutOrStdout(), "  ", rows)
			return nil
		},
	}
}

func newBackupVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR NAME",
		Short: "Read a backup whole and compare it with its checksums",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError("backup verify takes a directory and a name")
			}
			p := newProgress("bytes")
			var read int64
			err := backup.VerifyProgress(cmd.Context(), args[0], args[1], func(done, total int64) {
				read = done
				p.show(done, done, total)
			})
			if err != nil {
				return err
			}
			p.finish(read)
			fmt.Fprintf(cmd.OutOrStdout(), "backup %s is whole\n", args[1])
			return nil
		},
	}
}

func newBackupRestore() *cobra.Command {
	var data, journal []string
	var check restoreCheck
	cmd := &cobra.Command{
		Use:   "restore DIR NAME",
		Short: "Turn a backup into a store in empty directories",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError("backup restore takes a directory and a name")
			}
			if err := check.run(cmd.Context(), cmd.OutOrStdout(), args[0], args[1]); err != nil || check.only {
				return err
			}
			p := newProgress("bytes")
			var copied int64
			err := backup.RestoreProgress(cmd.Context(), args[0], args[1], data, journal, func(done, total int64) {
				copied = done
				p.show(done, done, total)
			})
			if err != nil {
				return err
			}
			p.finish(copied)
			fmt.Fprintf(cmd.OutOrStdout(), "backup %s restored; start it with varve serve --data %s\n", args[1], data[0])
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&data, "data", []string{"varve-data"}, "data directories, as many as the store had; empty or missing")
	cmd.Flags().StringSliceVar(&journal, "journal", nil, "journal directories, where the store had them")
	cmd.Flags().BoolVar(&check.only, "check", false, "restore nothing; tell which deletions a restore would undo (exit code 3 when it would any)")
	cmd.Flags().StringSliceVar(&check.live, "live", nil,
		"data directories of the store that the backup was made of, running or not: refuse to undo its deletions")
	cmd.Flags().StringSliceVar(&check.journal, "live-journal", nil, "its journal directories, where it has them")
	cmd.Flags().BoolVar(&check.allow, "allow-undo", false, "restore although that undoes deletions")
	return cmd
}
