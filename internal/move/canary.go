package move

import (
	"context"
	"fmt"
	"time"
)

// canary applies a change of the canary's table: only those of this flow's own
// row. The other flow's row can come this way only if the stream carries what
// the move itself wrote, and then every row would go round for ever.
func (x *session) canary(ctx context.Context, e *Event) error {
	if e.Op == Delete || len(e.New) == 0 {
		return nil
	}
	switch name := string(e.New[0]); {
	case name == x.f.stream:
		x.count()
		return x.w.Apply(ctx, e)
	case name == x.f.other:
		return fmt.Errorf("%w: stream %s carries what the move itself wrote, changes would go round", errUnfollowable, x.f.stream)
	}
	return nil
}

// proveCanary sends a row of the move's own through a flow, written as an app
// would write it, and returns how long it took to arrive.
func proveCanary(ctx context.Context, f *flow, patience time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	n := began.UnixNano()
	if err := f.from.Canary(ctx, f.stream, n); err != nil {
		return 0, fmt.Errorf("write the canary of %s: %w", f.stream, err)
	}
	for {
		got, err := f.to.ReadCanary(ctx, f.stream)
		if err != nil {
			return 0, fmt.Errorf("read the canary of %s: %w", f.stream, err)
		}
		if got == n {
			return time.Since(began), nil
		}
		if !sleep(ctx, 2*time.Millisecond) {
			return 0, fmt.Errorf("the canary did not come through %s within %s", f.stream, patience)
		}
	}
}
