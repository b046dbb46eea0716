package schema

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"varve/internal/cql"
)

// Record is one persisted object of the catalogue.
type Record struct {
	Key   string // "ks/<name>", "table/<ks>/<name>", "type/<ks>/<name>", "role/<name>", "ids"
	Value []byte // nil deletes
}

// Storage keeps the catalogue's records; the store implements it. Save
// returns once all records are durable, together or not at all.
type Storage interface {
	LoadRecords(ctx context.Context) ([]Record, error)
	SaveRecords(ctx context.Context, records []Record) error
}

// Event is a schema change as drivers are told of it.
type Event struct {
	Change   string // CREATED, UPDATED, DROPPED
	Target   string // KEYSPACE, TABLE, TYPE
	Keyspace string
	Name     string // "" for KEYSPACE
}

// Result tells what a DDL statement did.
type Result struct {
	Event    *Event // nil when nothing changed (IF NOT EXISTS)
	Warnings []string
	// Dropped and DroppedIndexes are tables and indexes whose data the caller
	// removes from the store now that the change is durable. The indexes of
	// dropped tables are among DroppedIndexes.
	Dropped        []*Table
	DroppedIndexes []*Index
	// Built are indexes of BuiltTable to be filled from its existing rows.
	Built      []*Index
	BuiltTable *Table
	// Implied are further events of the same change, such as the tables and
	// types that go with a dropped keyspace. Subscribers get them before Event.
	Implied []Event
}

// Catalog owns the current snapshot. Readers take it without a lock; changes
// are made one at a time.
type Catalog struct {
	storage Storage
	current atomic.Pointer[Snapshot]

	// mu is held through a change, the delivery of its event included.
	mu          sync.Mutex
	digests     map[string][16]byte // of every keyspace, table and type record
	nextPhys    uint32
	subscribers []func(Event)
	datacenter  string
	now         func() time.Time
	guard       Guard
}

// TableChange is a table before and after a change; nil where it is not there.
type TableChange struct{ Old, New *Table }

// Guard may refuse a change of tables before it is saved. done is called once
// the new definitions are in force (saved), or are known not to come into force.
type Guard func(ctx context.Context, changes []TableChange) (done func(saved bool), err error)

// Open loads the catalogue (an empty store gets the system keyspaces and the
// default superuser) and publishes its first snapshot.
func Open(ctx context.Context, st Storage) (*Catalog, error) {
	records, err := st.LoadRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("load catalogue: %w", err)
	}
	c := &Catalog{
		storage: st, digests: map[string][16]byte{}, nextPhys: FirstUserPhysID,
		datacenter: DefaultDatacenter, now: time.Now,
	}
	snap, err := c.restore(records)
	if err != nil {
		return nil, fmt.Errorf("load catalogue: %w", err)
	}
	snap.Version = c.version()
	c.current.Store(snap)
	if len(snap.Roles) == 0 {
		if err := c.createDefaultSuperuser(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// DefaultDatacenter is the datacenter's name until SetDatacenter.
const DefaultDatacenter = "datacenter1"

// SetDatacenter tells which datacenter this node is in; replication options
// are checked against it. It is called before the first change.
func (c *Catalog) SetDatacenter(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.datacenter = name
}

// SetClock gives the time at which columns are dropped, which decides over
// their cells and so must be the clock that writes get their timestamps from.
// It is called before the first change.
func (c *Catalog) SetClock(now func() time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// SetGuard sets who is asked before tables are created, altered or dropped. It
// is called before the first change.
func (c *Catalog) SetGuard(g Guard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guard = g
}

// Snapshot returns the current snapshot; never nil.
func (c *Catalog) Snapshot() *Snapshot { return c.current.Load() }

// Subscribe calls f after each change, in order, with the new snapshot in
// place. f must not change the schema and must return soon: the next change waits for it.
func (c *Catalog) Subscribe(f func(Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, f)
}

// Apply carries out one DDL statement (keyspace, table, type, index) in the
// given session keyspace. Errors are *Error with the protocol's code and Cassandra's text.
func (c *Catalog) Apply(ctx context.Context, sessionKeyspace string, st cql.Statement) (*Result, error) {
	return c.ApplyAs(ctx, "", sessionKeyspace, st)
}

// ApplyAs is Apply on behalf of a role, which is granted every permission on
// the keyspace or table that it creates; "" stands for nobody.
func (c *Catalog) ApplyAs(ctx context.Context, role, sessionKeyspace string, st cql.Statement) (*Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.draft()
	d.session = sessionKeyspace
	res, err := d.apply(st)
	if err != nil {
		return nil, err
	}
	d.grantCreator(role, res.Event)
	if err := c.commitGuarded(ctx, d); err != nil {
		return nil, err
	}
	for _, e := range res.Implied {
		c.publish(e)
	}
	if res.Event != nil {
		c.publish(*res.Event)
	}
	return res, nil
}

// commitGuarded is commit with the guard's consent.
func (c *Catalog) commitGuarded(ctx context.Context, d *draft) error {
	if c.guard == nil {
		return c.commit(ctx, d)
	}
	done, err := c.guard(ctx, d.tableChanges(c.current.Load()))
	if err != nil {
		return err
	}
	err = c.commit(ctx, d)
	done(err == nil)
	return err
}

// IndexBuilt notes that an index holds an entry for every row, so that reads
// may use it. An index that is gone by now is no error.
func (c *Catalog) IndexBuilt(ctx context.Context, keyspace, name string, physID uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.draft()
	k := d.snap.Keyspaces[keyspace]
	if k == nil {
		return nil
	}
	t, x := k.FindIndex(name)
	if x == nil || x.PhysID != physID || !x.Building {
		return nil
	}
	built := *x
	built.Building = false
	n := t.clone()
	for i := range n.Indexes {
		if n.Indexes[i] == x {
			n.Indexes[i] = &built
		}
	}
	d.putTable(n)
	if err := c.commit(ctx, d); err != nil {
		return err
	}
	c.publish(Event{Change: "UPDATED", Target: "TABLE", Keyspace: keyspace, Name: t.Name})
	return nil
}

func (c *Catalog) publish(e Event) {
	for _, f := range c.subscribers {
		f(e)
	}
}

// apply dispatches a statement to the change that carries it out.
func (d *draft) apply(st cql.Statement) (*Result, error) {
	switch st := st.(type) {
	case *cql.CreateKeyspace:
		return d.createKeyspace(st)
	case *cql.AlterKeyspace:
		return d.alterKeyspace(st)
	case *cql.DropKeyspace:
		return d.dropKeyspace(st)
	case *cql.CreateTable:
		return d.createTable(st)
	case *cql.AlterTable:
		return d.alterTable(st)
	case *cql.DropTable:
		return d.dropTable(st)
	case *cql.CreateType:
		return d.createType(st)
	case *cql.AlterType:
		return d.alterType(st)
	case *cql.DropType:
		return d.dropType(st)
	case *cql.CreateIndex:
		return d.createIndex(st)
	case *cql.DropIndex:
		return d.dropIndex(st)
	case *cql.Unsupported:
		return nil, unsupported(st.Feature)
	}
	return nil, invalid("%T is not a schema statement", st)
}
