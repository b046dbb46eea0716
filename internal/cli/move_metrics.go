package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"varve/internal/move"
)

// moveCollector turns the state rows into metrics when they are asked for.
type moveCollector struct {
	store move.StateStore
	name  string
	log   *slog.Logger
}

func moveMetrics(store move.StateStore, name string, log *slog.Logger) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(&moveCollector{store, name, log})
	return r
}

func moveDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("varve_move_"+name, help, append([]string{"move"}, labels...), nil)
}

var (
	descMoveState     = moveDesc("state", "1 for the state that the move is in.", "state")
	descMoveUp        = moveDesc("owned", "1 while a mover owns the move.")
	descMoveTrouble   = moveDesc("stopped", "1 while the move does not go on by itself.")
	descMoveCanonical = moveDesc("canonical", "1 for the side that is right.", "side")
	descMoveReads     = moveDesc("read_percent", "Share of the reads that the target answers.")
	descMoveCopied    = moveDesc("copied_rows", "Rows copied.", "table")
	descMoveRows      = moveDesc("table_rows", "Rows of origin, estimated.", "table")
	descMoveVerified  = moveDesc("verified_rows", "Rows found equal on both sides.", "table")
	descMoveRate      = moveDesc("copy_rows_per_second", "Copied rows over the last seconds.")
	descMoveLimit     = moveDesc("copy_limit_rows_per_second", "What the limiter allows.")
	descMoveLatency   = moveDesc("app_latency_seconds", "The app's p95.")
	descMoveTouched   = moveDesc("touched_rows", "Rows that wait to be compared again.")
	descMoveDiffs     = moveDesc("differences", "Rows that differ, and broken rules.")
	descMoveLag       = moveDesc("lag_seconds", "How far a stream is behind.", "stream")
	descMoveChanges   = moveDesc("changes_total", "Changes applied since the mover started.", "stream")
	descMoveHeld      = moveDesc("log_held_bytes", "Log that the source keeps for a stream.", "stream")
	descMoveRefill    = moveDesc("refill_rows", "Rows that the sink refused and that wait to be filled.", "stream")
)

// Describe leaves the descriptions to Collect: the tables are known then.
func (c *moveCollector) Describe(chan<- *prometheus.Desc) {}

func (c *moveCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := c.store.Load(ctx, c.name)
	if err != nil {
		c.log.Warn("no metrics of the move", "err", err)
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{c.name}, labels...)...)
	}
	flag := func(d *prometheus.Desc, on bool, labels ...string) {
		v := 0.0
		if on {
			v = 1
		}
		gauge(d, v, labels...)
	}
	gauge(descMoveState, 1, string(r.State))
	flag(descMoveUp, r.Owned())
	flag(descMoveTrouble, r.Trouble != "")
	gauge(descMoveCanonical, 1, r.Canonical.String())
	gauge(descMoveReads, float64(r.ReadPercent))
	l := &r.Live
	gauge(descMoveRate, l.Rate)
	gauge(descMoveLimit, l.Limit)
	gauge(descMoveLatency, l.Latency/1000)
	gauge(descMoveTouched, float64(l.Touched))
	gauge(descMoveDiffs, float64(l.Differences))
	for _, t := range l.Tables {
		gauge(descMoveRows, float64(t.Rows), t.Table)
		gauge(descMoveCopied, float64(t.Copied), t.Table)
		gauge(descMoveVerified, float64(t.Verified), t.Table)
	}
	for _, f := range l.Flows {
		if f.Lag >= 0 {
			gauge(descMoveLag, f.Lag/1000, f.Stream)
		}
		gauge(descMoveHeld, float64(f.Held), f.Stream)
		gauge(descMoveRefill, float64(f.Refill), f.Stream)
		ch <- prometheus.MustNewConstMetric(descMoveChanges, prometheus.CounterValue, float64(f.Changes), c.name, f.Stream)
	}
}
