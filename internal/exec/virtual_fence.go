package exec

import (
	"context"
	"time"

	"varve/internal/schema"
	"varve/internal/store"
)

func fenceRow(x *execution, v *virtualRows, t *schema.Table) error {
	f, ok := x.e.opts.Store.FenceOf(t)
	if !ok {
		return nil
	}
	state := "closed"
	if f.Open() {
		state = "open"
	}
	v.next().text("keyspace_name", t.Keyspace).text("table_name", t.Name).bigint("generation", f.Generation).
		text("state", state).bigint("refused", f.Refused)
	if f.Pass != "" && x.e.authorize(x.s, "MODIFY", t) == nil {
		v.text("pass", f.Pass)
	}
	if f.Hint != "" {
		v.text("hint", f.Hint)
	}
	if f.ClosedAt != 0 {
		v.set("closed_at", timestampValue(floorMillis(f.ClosedAt)))
	}
	if f.Closed && f.Deadline != 0 {
		left := max(0, time.UnixMicro(f.Deadline).Sub(x.e.opts.Clock()).Milliseconds())
		v.bigint("expires_in_ms", left).set("expires_at", timestampValue(floorMillis(f.Deadline)))
	}
	return nil
}

func changeFence(ctx context.Context, x *execution, c *virtualChange) error {
	t, err := x.e.tableOfRow(x.s, c.key["keyspace_name"], c.key["table_name"], "MODIFY", "ALTER")
	if err != nil {
		return err
	}
	if c.kind == deleteKind {
		return feedError(x.e.opts.Store.DropFence(ctx, t, x.p.Move))
	}
	if err := c.writable("varve.fences", "generation", "state", "pass", "hint", "expires_in_ms", "expires_at"); err != nil {
		return err
	}
	change := store.FenceChange{Replace: c.kind == insertKind}
	generation := c.set["generation"]
	if generation == nil {
		return invalidf("A change of a fence needs its generation")
	}
	change.Generation = bigintOf(generation)
	switch state, given := c.set["state"]; {
	case given && string(state) == "closed", given && string(state) == "open":
		closed := string(state) == "closed"
		change.Closed = &closed
	case given || change.Replace:
		return invalidf("The state of a fence is 'closed' or 'open'")
	}
	change.Pass, change.Hint = c.text("pass"), c.text("hint")
	if change.Deadline, err = c.deadline(x.e.opts.Clock()); err != nil {
		return err
	}
	return feedError(x.e.opts.Store.SetFence(ctx, t, change))
}

// text is a text that was written, "" for null; nil when it was not.
func (c *virtualChange) text(column string) *string {
	v, given := c.set[column]
	if !given {
		return nil
	}
	s := string(v)
	return &s
}

// maxFenceTime bounds how long a fence may last that is not for good.
const maxFenceTime = 365 * 24 * time.Hour

// deadline is when a fence is to lift itself; the zero time stands for never, nil for not given.
func (c *virtualChange) deadline(now time.Time) (*time.Time, error) {
	in, hasIn := c.set["expires_in_ms"]
	at, hasAt := c.set["expires_at"]
	if in != nil && at != nil {
		return nil, invalidf("Give expires_in_ms or expires_at, not both")
	}
	var left time.Duration
	switch {
	case in != nil:
		ms := bigintOf(in)
		if ms <= 0 || ms > maxFenceTime.Milliseconds() {
			return nil, invalidf("expires_in_ms is from 1 to %d, not %d", maxFenceTime.Milliseconds(), ms)
		}
		left = time.Duration(ms) * time.Millisecond
	case at != nil:
		ms := bigintOf(at)
		if ms > now.Add(maxFenceTime).UnixMilli() || ms < 0 {
			return nil, invalidf("expires_at is at most a year ahead")
		}
		left = time.UnixMilli(ms).Sub(now)
	case hasIn || hasAt:
		return &time.Time{}, nil
	default:
		return nil, nil
	}
	deadline := now.Add(left)
	return &deadline, nil
}
