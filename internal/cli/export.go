package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"varve/internal/bulk"
)

func newExport() *cobra.Command {
	var (
		conn    connection
		columns []string
		header  bool
		page    int
	)
	cmd := &cobra.Command{
		Use:   "export KEYSPACE.TABLE [FILE.csv]",
		Short: "Write a table as CSV to a file or to standard output",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError("export takes a table and a file")
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
			var out io.Writer = cmd.OutOrStdout()
			var file *os.File
			if len(args) == 2 {
				// A name that does not look whole until it is.
				if file, err = os.Create(args[1] + ".part"); err != nil {
					return err
				}
				defer func() { _ = file.Close() }()
				out = file
			}
			buf := bufio.NewWriterSize(out, 256<<10)
			p := newProgress("rows")
			rows, err := bulk.Export(cmd.Context(), c, buf, bulk.ExportOptions{
				Table: table, Header: header, PageSize: page, Progress: p.show,
			})
			if err != nil {
				return err
			}
			if err := buf.Flush(); err != nil {
				return fmt.Errorf("write CSV: %w", err)
			}
			p.finish(rows)
			if file == nil {
				return nil
			}
			if err := file.Sync(); err != nil {
				return err
			}
			return os.Rename(args[1]+".part", args[1])
		},
	}
	conn.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&columns, "columns", nil, "columns to write; all by default")
	f.BoolVar(&header, "header", false, "begin with a record of column names")
	f.IntVar(&page, "page-size", 1000, "rows a page")
	return cmd
}
