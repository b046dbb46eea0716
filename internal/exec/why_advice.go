package exec

import (
	"fmt"
	"time"

	"varve/internal/schema"
	"varve/internal/store"
)

// timeText is a time in seconds since the epoch as operators read it.
func timeText(sec int64) string { return time.Unix(sec, 0).UTC().Format("2006-01-02 15:04:05Z") }

// returns tells what takes which space back, and when.
func (a *WhyAnswer) returns() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	c, grace := &a.Causes, a.GCGraceSeconds
	covered := c.RangeDeletion + c.PartitionDeletion
	own := a.DeadRows - covered
	if covered > 0 {
		say("%d rows that a range or partition deletion covers: their span is purged within a minute of idle time, "+
			"single ones by the sweep; the deletion itself stays", covered)
	}
	if own > 0 || a.DeadCells > 0 {
		say("values under the tombstones of %d rows: when compaction merges both; the tombstones stay until gc_grace_seconds", own)
	}
	if a.OldestDeletion == 0 {
		return out
	}
	first, last := a.OldestDeletion+grace, a.NewestDeletion+grace
	by := "by the sweep over the table (every ten minutes at most)"
	if a.Spans.Count > 0 {
		by = "whole spans within an hour of the newest deletion in them coming of age, the rest " + by
	}
	if last <= a.Now {
		say("all tombstones are past gc_grace_seconds (%s) and go now, %s", timeText(last), by)
		return out
	}
	say("tombstones, range deletions and expired rows: from %s (oldest + gc_grace_seconds) to %s (newest), %s",
		timeText(first), timeText(last), by)
	return out
}

// longGrace is a gc_grace_seconds, in seconds, that is worth a remark where much is dead.
const longGrace = 24 * 60 * 60

// largePartition is the size, in bytes, from which Cassandra's manuals call a partition large.
const largePartition = 100 << 20

// advice tells what to change, most important first.
func (a *WhyAnswer) advice(t *schema.Table) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	c := &a.Causes
	worst := max(a.Forward.Walked, a.Backward.Walked)
	if worst > 0 && a.TombstoneWarn > 0 && worst > a.TombstoneWarn {
		say("a page walks %d tombstones, over tombstone_warn_threshold (%d)", worst, a.TombstoneWarn)
	}
	if worst >= 512 {
		if a.Spans.Count == 0 || a.Spans.Rows < a.DeadRows/2 {
			say("no dead span covers most of it yet: the background makes one within seconds of the last delete, or of a read " +
				"that walked there; run again. If walked stays, dead and live rows lie mixed (see below) or the span memory is full " +
				"(span_size; metric varve_store_dead_spans_evicted_total)")
		}
	}
	if scattered := a.DeadRows - a.Spans.Rows; a.LiveRows > 0 && scattered > 1000 && scattered > a.LiveRows {
		say("%d dead rows lie between live ones in runs too short to jump (under 32): delete by range, or put what dies together "+
			"side by side (time first in the clustering key); varve nodetool compact %s %s makes them cheaper to walk", scattered, t.Keyspace, t.Name)
	}
	if c.ColumnTombstones > 0 || a.DeadCells > 100 && a.DeadCells > a.LiveRows/2 {
		say("%d dead cells in live rows and %d rows of nothing but column tombstones: writing null deletes. Leave the column out, "+
			"or bind it unset; write collections by + and -, or frozen, since setting a whole one deletes it first", a.DeadCells, c.ColumnTombstones)
	}
	if c.CellTTL > 0 {
		say("%d rows died cell by cell: UPDATE ... USING TTL gives the row no TTL of its own. INSERT ... USING TTL, or "+
			"default_time_to_live, lets the row expire as one", c.CellTTL)
	}
	if a.DeadRows > 10_000 && a.DeadRows > a.LiveRows && a.GCGraceSeconds > longGrace {
		say("gc_grace_seconds is %d (%.1f days): tombstones stay that long against late writes with older timestamps and restores "+
			"of older backups. Where clients send no old timestamps: ALTER TABLE %s.%s WITH gc_grace_seconds = 3600",
			a.GCGraceSeconds, float64(a.GCGraceSeconds)/86400, t.Keyspace, t.Name)
	}
	if a.RangeDeletions > 100_000 {
		say("%d range deletions are kept: one wide one costs less than many narrow ones", a.RangeDeletions)
	}
	if a.DiskBytes > largePartition && a.Range == "" {
		say("the partition takes %d MiB: add a time bucket to the partition key", a.DiskBytes>>20)
	}
	if a.Static == store.StaticLeftover {
		say("only the static row is alive; DELETE the partition if it is not wanted")
	}
	if len(out) == 0 {
		say("nothing: a page costs what its live rows cost")
	}
	return out
}
