package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"varve/internal/cql"
	"varve/internal/cqlwire"
	"varve/internal/schema"
	"varve/internal/store"
)

// changeSchema carries out a DDL statement: permission, catalogue, then what
// follows from the change in the store.
func (a *adminRun) changeSchema(ctx context.Context, st cql.Statement) (*Result, error) {
	if err := a.authorizeDDL(st); err != nil {
		return nil, err
	}
	e := a.e
	creator := ""
	if e.opts.Auth {
		creator = a.s.Role
	}
	done, err := e.opts.Catalog.ApplyAs(withMove(ctx, a.move), creator, a.keyspace, st)
	if err != nil {
		return nil, err
	}
	if len(done.Dropped)+len(done.DroppedIndexes)+len(done.Built) > 0 {
		// The change is made; what follows must not stop half-way because the
		// client went away, but only with the engine.
		ctx = e.builds.ctx
		if err := e.gate.wait(ctx); err != nil {
			return nil, err
		}
	}
	e.dropData(ctx, done)
	for _, x := range done.Built {
		if err := e.finishIndex(ctx, done.BuiltTable, x); err != nil {
			return nil, err
		}
	}
	res := voidResult()
	res.Warnings = done.Warnings
	if done.Event != nil {
		res.Kind = cqlwire.ResultSchemaChange
		res.Change = done.Event
	}
	return res, nil
}

// dropData removes the data of dropped tables and indexes. The change is
// durable, so a failure here only leaves unreachable bytes behind, which are logged.
func (e *Engine) dropData(ctx context.Context, done *schema.Result) {
	drop := func(what string, id uint32) {
		if err := e.opts.Store.DropPhys(ctx, id); err != nil {
			e.opts.Logger.Error("remove dropped data", "of", what, "physical_id", id, "error", err)
		}
	}
	for _, t := range done.Dropped {
		drop(t.Keyspace+"."+t.Name, t.PhysID)
	}
	for _, x := range done.DroppedIndexes {
		drop("index "+x.Name, x.PhysID)
	}
}

// orphans are physical ids of dropped tables and indexes whose data a crash, or
// an error, has left. It is called before the first request: what is made later is not among them.
func (e *Engine) orphans() ([]uint32, error) {
	ids, err := e.opts.Store.PhysIDs()
	if err != nil {
		return nil, err
	}
	known := map[uint32]bool{}
	for _, k := range e.opts.Catalog.Snapshot().Keyspaces {
		for _, t := range k.Tables {
			known[t.PhysID] = true
			for _, x := range t.Indexes {
				known[x.PhysID] = true
			}
		}
	}
	return slices.DeleteFunc(ids, func(id uint32) bool { return id < schema.FirstUserPhysID || known[id] }), nil
}

// dropOrphans removes what drops before the last start have left.
func (e *Engine) dropOrphans(ctx context.Context, ids []uint32) {
	for _, id := range ids {
		e.opts.Logger.Info("removing data of a dropped table or index", "physical_id", id)
		if err := e.opts.Store.DropPhys(ctx, id); err != nil && !errors.Is(err, context.Canceled) {
			e.opts.Logger.Error("remove data of a dropped table or index", "physical_id", id, "error", err)
		}
	}
}

// finishIndex fills an index from existing rows and then lets reads use it. An
// index that cannot be filled stays unused; it is tried again at the next start.
func (e *Engine) finishIndex(ctx context.Context, t *schema.Table, x *schema.Index) error {
	if err := e.buildIndex(ctx, t, x); err != nil {
		return fmt.Errorf("fill index %s.%s: %w", t.Keyspace, x.Name, err)
	}
	return e.opts.Catalog.IndexBuilt(ctx, t.Keyspace, x.Name, x.PhysID)
}

// indexBuilds is the work of filling indexes whose building a crash or an
// error interrupted, done in the background from the start of an engine.
type indexBuilds struct {
	ctx    context.Context // of all work that outlives requests; ends with the engine
	cancel context.CancelFunc
	done   chan struct{}
}

func (b *indexBuilds) start(e *Engine, orphans []uint32) {
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.done = make(chan struct{})
	go func() {
		defer close(b.done)
		e.dropOrphans(b.ctx, orphans)
		e.resumeIndexes(b.ctx)
	}()
}

func (b *indexBuilds) close() {
	b.cancel()
	<-b.done
}

// resumeIndexes fills the indexes whose building was interrupted.
func (e *Engine) resumeIndexes(ctx context.Context) {
	for _, k := range sortedKeyspaces(e.opts.Catalog.Snapshot()) {
		for _, t := range sortedTables(k) {
			for _, x := range t.Indexes {
				if !x.Building {
					continue
				}
				e.opts.Logger.Info("filling an index again whose building was interrupted", "keyspace", k.Name, "index", x.Name)
				err := e.finishIndex(ctx, t, x)
				if err != nil && !errors.Is(err, context.Canceled) {
					e.opts.Logger.Error("fill index", "keyspace", k.Name, "index", x.Name, "error", err)
				}
			}
		}
	}
}

func (a *adminRun) truncate(ctx context.Context, st *cql.Truncate) (*Result, error) {
	ks, err := a.keyspaceOf(st.Table.Keyspace)
	if err != nil {
		return nil, err
	}
	snap := a.e.opts.Catalog.Snapshot()
	if snap.Keyspaces[ks] == nil {
		return nil, invalidf("keyspace %s does not exist", ks)
	}
	t := snap.Table(ks, st.Table.Name)
	if t == nil {
		return nil, invalidf("table %s does not exist", st.Table.Name)
	}
	if err := a.e.authorize(a.s, "MODIFY", t); err != nil {
		return nil, err
	}
	if t.Virtual {
		return nil, invalidf("Truncation is not supported by table %s.%s", ks, t.Name)
	}
	var fenced *store.FencedError
	if err := a.e.opts.Store.TruncateAs(ctx, t, a.move); errors.As(err, &fenced) {
		return nil, err
	} else if err != nil {
		return nil, &cqlwire.Error{
			Code: cqlwire.ErrTruncate, Message: fmt.Sprintf("Error during truncate: %s", err),
		}
	}
	return voidResult(), nil
}
