package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"varve/internal/console"
)

func nodetoolTableStats(ctx context.Context, c *console.Client, w io.Writer, args []string) error {
	var reqs []console.TablesRequest
	for _, a := range args {
		ks, table, ok := strings.Cut(a, ".")
		r := console.TablesRequest{Keyspace: ks}
		if ok {
			r.Tables = []string{table}
		}
		reqs = append(reqs, r)
	}
	if len(args) == 0 {
		reqs = append(reqs, console.TablesRequest{})
	}
	var all []console.TableStats
	for _, r := range reqs {
		var some []console.TableStats
		if err := c.Call(ctx, "/v1/tablestats", r, &some); err != nil {
			return err
		}
		all = append(all, some...)
	}
	fmt.Fprintf(w, "Total number of tables: %d\n", len(all))
	const rule = "----------------"
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].Keyspace == all[i].Keyspace {
			j++
		}
		fmt.Fprintln(w, rule)
		writeKeyspaceStats(w, all[i:j])
		i = j
	}
	fmt.Fprintln(w, rule)
	return nil
}

func writeKeyspaceStats(w io.Writer, tables []console.TableStats) {
	var reads, writes int64
	var readTime, writeTime time.Duration
	for _, t := range tables {
		reads, writes = reads+t.Reads, writes+t.Writes
		readTime += t.ReadLatency * time.Duration(t.Reads)
		writeTime += t.WriteLatency * time.Duration(t.Writes)
	}
	fmt.Fprintf(w, "Keyspace: %s\n", tables[0].Keyspace)
	fmt.Fprintf(w, "\tRead Count: %d\n\tRead Latency: %s ms\n", reads, meanMillis(readTime, reads))
	fmt.Fprintf(w, "\tWrite Count: %d\n\tWrite Latency: %s ms\n\tPending Flushes: 0\n", writes, meanMillis(writeTime, writes))
	for _, t := range tables {
		writeTableStats(w, &t)
	}
}

func writeTableStats(w io.Writer, t *console.TableStats) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "\t\t%s: %s\n", name, fmt.Sprintf(format, args...))
	}
	line("Table", "%s", t.Table)
	line("SSTable count", "%d", t.Files)
	line("Space used (live)", "%d", t.LiveBytes)
	line("Space used (total)", "%d", t.TotalBytes)
	line("Number of partitions (estimate)", "%d", t.Partitions)
	line("Number of rows (estimate)", "%d", t.Rows)
	line("Memtable data size", "%d", t.MemtableBytes)
	line("Local read count", "%d", t.Reads)
	line("Local read latency", "%s ms", meanMillis(t.ReadLatency, 1))
	line("Local write count", "%d", t.Writes)
	line("Local write latency", "%s ms", meanMillis(t.WriteLatency, 1))
	line("Average live cells per slice (last five minutes)", "%s", floatText(t.MeanLive))
	line("Maximum live cells per slice (last five minutes)", "%d", t.MaxLive)
	line("Average tombstones per slice (last five minutes)", "%s", floatText(t.MeanTombstones))
	line("Maximum tombstones per slice (last five minutes)", "%d", t.MaxTombstones)
	line("Tombstones walked by reads", "%d", t.Walked)
	line("Dead rows jumped by reads", "%d", t.Jumped)
	line("Dead spans", "%d", t.DeadSpans)
	line("Dead rows in spans", "%d", t.DeadRows)
	line("Garbage collection grace", "%d s", t.GCGraceSeconds)
	fmt.Fprintln(w)
}

func meanMillis(total time.Duration, n int64) string {
	if n == 0 || total == 0 {
		return "NaN"
	}
	return floatText(float64(total) / float64(n) / float64(time.Millisecond))
}

func floatText(f float64) string {
	s := strconv.FormatFloat(f, 'f', 4, 64)
	s = strings.TrimRight(s, "0")
	if strings.HasSuffix(s, ".") {
		s += "0"
	}
	return s
}

func nodetoolSetThresholds(ctx context.Context, c *console.Client, _ io.Writer, args []string) error {
	if len(args) != 2 {
		return usageError("settombstonethresholds takes two numbers: warn and fail")
	}
	var t console.Thresholds
	for i, p := range []*int64{&t.Warn, &t.Fail} {
		n, err := strconv.ParseInt(args[i], 10, 64)
		if err != nil {
			return usageError("%q is not a number", args[i])
		}
		*p = n
	}
	return c.Call(ctx, "/v1/thresholds", t, nil)
}

func nodetoolGetThresholds(ctx context.Context, c *console.Client, w io.Writer, _ []string) error {
	var t console.Thresholds
	if err := c.Call(ctx, "/v1/thresholds", nil, &t); err != nil {
		return err
	}
	fmt.Fprintf(w, "tombstone_warn_threshold: %d\ntombstone_failure_threshold: %d\n", t.Warn, t.Fail)
	return nil
}

// nodetoolAutoCompaction acts on the whole store: tables share their files.
func nodetoolAutoCompaction(on bool) nodetoolFunc {
	return func(ctx context.Context, c *console.Client, _ io.Writer, args []string) error {
		if len(args) > 0 {
			return usageError("compaction is of the whole store; keyspaces and tables cannot be named")
		}
		return c.Call(ctx, "/v1/autocompaction", console.AutoCompaction{On: on}, nil)
	}
}

func nodetoolAutoCompactionStatus(ctx context.Context, c *console.Client, w io.Writer, args []string) error {
	if len(args) > 0 {
		return usageError("compaction is of the whole store; keyspaces and tables cannot be named")
	}
	var a console.AutoCompaction
	if err := c.Call(ctx, "/v1/autocompaction", nil, &a); err != nil {
		return err
	}
	state := "running"
	if !a.On {
		state = "not running"
	}
	_, err := fmt.Fprintln(w, state)
	return err
}
