package exec

import (
	"context"
	"fmt"

	"varve/internal/schema"
)

type moveKey struct{}

// withMove keeps a request's varve-move token for guardTables.
func withMove(ctx context.Context, move string) context.Context {
	if move == "" {
		return ctx
	}
	return context.WithValue(ctx, moveKey{}, move)
}

func moveOf(ctx context.Context) string {
	move, _ := ctx.Value(moveKey{}).(string)
	return move
}

// watchFeeds makes the store's change feeds agree with the catalogue, now and
// with every change of it, and has fences refuse changes of definitions.
func (e *Engine) watchFeeds() error {
	var tables []*schema.Table
	err := eachStored(e.opts.Catalog.Snapshot(), func(t *schema.Table) error {
		tables = append(tables, t)
		return nil
	})
	if err == nil {
		err = e.opts.Store.SyncFeeds(context.Background(), tables)
	}
	if err != nil {
		return fmt.Errorf("start change feeds: %w", err)
	}
	e.opts.Catalog.SetGuard(e.guardTables)
	return nil
}

// guardTables is the catalogue's guard. A feed that is switched on is there
// before anybody can write by the new definition, and one that is switched off
// goes when nobody reads by the old one.
func (e *Engine) guardTables(ctx context.Context, changes []schema.TableChange) (done func(saved bool), err error) {
	var old, on, off []*schema.Table
	for _, c := range changes {
		was := c.Old != nil && c.Old.Options.CDC
		if c.Old != nil {
			old = append(old, c.Old)
		}
		if c.New == nil || c.New.Virtual {
			continue
		}
		is := c.New.Options.CDC && !c.New.Counter
		switch {
		case is && !was:
			on = append(on, c.New)
		case was && !is:
			off = append(off, c.New)
		}
	}
	release, err := e.opts.Store.AdmitDDL(old, moveOf(ctx))
	if err != nil {
		return nil, err
	}
	for _, t := range on {
		if err := e.opts.Store.SetFeed(ctx, t, true); err != nil {
			release()
			return nil, err
		}
	}
	return func(saved bool) {
		defer release()
		if !saved {
			off = on
		}
		for _, t := range off {
			// The request may be over; the definition is saved in either case, and a start repairs what is left.
			if err := e.opts.Store.SetFeed(context.WithoutCancel(ctx), t, false); err != nil {
				e.opts.Logger.Error("switch off change feed", "table", t.Keyspace+"."+t.Name, "error", err)
			}
		}
	}, nil
}
