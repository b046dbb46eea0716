package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"varve/internal/bench"
	"varve/internal/cqlwire"
	"varve/internal/upstream"
)

func newBench() *cobra.Command {
	var (
		conn   connection
		o      bench.Options
		cl     string
		asJSON bool
		schema bool
	)
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure any CQL server with single-row statements on a chat table",
		Long: "Measure any CQL server with single-row statements on the table bench.messages,\n" +
			"which varve bench --schema makes.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level, ok := cqlwire.ParseConsistency(strings.ToUpper(cl))
			if !ok {
				return usageError("%q is no consistency level", cl)
			}
			o.Consistency, o.Dial = level, conn.dial
			if schema {
				return benchSchema(cmd.Context(), conn.dial)
			}
			if err := o.Validate(); err != nil {
				return usageError("%w", err)
			}
			r, err := bench.Run(cmd.Context(), o)
			if missing := new(cqlwire.Error); errors.As(err, &missing) && missing.Code == cqlwire.ErrInvalid {
				return fmt.Errorf("%w; varve bench --schema makes the table", err)
			}
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(w).Encode(r)
			}
			fmt.Fprintf(w, "%s: %d in %.2f s, %.0f/s, p50 %.0f µs, p95 %.0f, p99 %.0f, p99.9 %.0f, worst %.0f, errors %d %s\n",
				r.Op, r.N, r.Seconds, r.PerSecond, r.P50, r.P95, r.P99, r.P999, r.Worst, r.Errors, r.FirstError)
			if r.Errors > 0 {
				return exitError{1}
			}
			return nil
		},
	}
	conn.flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&schema, "schema", false, "only create the keyspace and the table")
	f.StringVar(&o.Op, "op", "insert", strings.Join(bench.Ops, ", "))
	f.IntVar(&o.N, "n", 100_000, "operations to time")
	f.IntVar(&o.Warm, "warm", 0, "operations before them, not timed")
	f.IntVar(&o.InFlight, "in-flight", 64, "requests at once")
	f.Float64Var(&o.Rate, "rate", 0, "operations a second, latency counted from when each was due; 0: as many as go")
	f.IntVar(&o.Conns, "conns", 2, "connections")
	f.IntVar(&o.Rows, "rows", 1_000_000, "rows of the table")
	f.IntVar(&o.Channels, "channels", 1000, "partitions they are spread over")
	f.IntVar(&o.BodyBytes, "body", 80, "bytes of text in a row")
	f.StringVar(&cl, "consistency", "LOCAL_ONE", "consistency level")
	f.BoolVar(&o.Check, "check", true, "count a read that misses rows as an error")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the random choices")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func benchSchema(ctx context.Context, dial func(context.Context) (*upstream.Conn, error)) error {
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return bench.Schema(ctx, c)
}
