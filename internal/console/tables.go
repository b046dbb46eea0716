package console

import (
	"context"
	"fmt"
	"sort"

	"varve/internal/schema"
)

// stored lists the request's stored tables, by keyspace and name.
func (a *Admin) stored(r TablesRequest) ([]*schema.Table, error) {
	snap := a.Catalog.Snapshot()
	var out []*schema.Table
	if r.Keyspace != "" {
		ks := snap.Keyspaces[r.Keyspace]
		if ks == nil {
			return nil, badRequest("Keyspace [%s] does not exist.", r.Keyspace)
		}
		for _, name := range r.Tables {
			t := ks.Tables[name]
			if t == nil {
				return nil, badRequest("Unknown keyspace/cf pair (%s.%s)", r.Keyspace, name)
			}
			out = append(out, t)
		}
		if len(r.Tables) > 0 {
			return out, nil
		}
	}
	for _, ks := range snap.Keyspaces {
		if r.Keyspace != "" && ks.Name != r.Keyspace {
			continue
		}
		for _, t := range ks.Tables {
			if !t.Virtual {
				out = append(out, t)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Keyspace != out[j].Keyspace {
			return out[i].Keyspace < out[j].Keyspace
		}
		return out[i].Name < out[j].Name
	})
	return out, nil
}

// each runs f on the requested tables, or once on everything.
func (a *Admin) each(ctx context.Context, r TablesRequest, f func(context.Context, *schema.Table) error) error {
	if r.Keyspace == "" {
		return f(ctx, nil)
	}
	tables, err := a.stored(r)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := f(ctx, t); err != nil {
			return fmt.Errorf("table %s.%s: %w", t.Keyspace, t.Name, err)
		}
	}
	return nil
}

func (a *Admin) tableStats(r TablesRequest) ([]TableStats, error) {
	tables, err := a.stored(r)
	if err != nil {
		return nil, err
	}
	out := make([]TableStats, 0, len(tables))
	for _, t := range tables {
		if t.Virtual {
			continue
		}
		st, err := a.Store.TableStats(t)
		if err != nil {
			return nil, fmt.Errorf("statistics of %s.%s: %w", t.Keyspace, t.Name, err)
		}
		out = append(out, TableStats{
			Keyspace: t.Keyspace, Table: t.Name, TableStats: st, GCGraceSeconds: t.Options.GCGraceSeconds,
		})
	}
	return out, nil
}

func (a *Admin) keyspaces() []Keyspace {
	var out []Keyspace
	for _, ks := range a.Catalog.Snapshot().Keyspaces {
		if !ks.Virtual {
			out = append(out, Keyspace{Name: ks.Name, Replication: ks.Replication})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}
