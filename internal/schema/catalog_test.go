package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"varve/internal/cql"
)

// checkReopens checks that the catalogue's records give an equal snapshot, and
// that it can go on.
func checkReopens(t *testing.T, c *Catalog) {
	t.Helper()
	again, err := Open(context.Background(), c.storage)
	if err != nil {
		t.Fatalf("reopen: %v", err)
	}
	if d := cmp.Diff(c.Snapshot(), again.Snapshot(), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("the snapshot differs after reopening (-before +after):\n%s", d)
	}
	if c.nextPhys != again.nextPhys {
		t.Errorf("next physical id was %d, is %d after reopening", c.nextPhys, again.nextPhys)
	}
}

// brittleStorage fails when it is told to.
type brittleStorage struct {
	*MemoryStorage
	fail error
}

func (b *brittleStorage) SaveRecords(ctx context.Context, records []Record) error {
	if b.fail != nil {
		return b.fail
	}
	return b.MemoryStorage.SaveRecords(ctx, records)
}

func openTest(t *testing.T, st Storage) *Catalog {
	t.Helper()
	c, err := Open(context.Background(), st)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func apply(t *testing.T, c *Catalog, text string) *Result {
	t.Helper()
	parsed, err := cql.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	res, err := c.Apply(context.Background(), "ks", parsed.Stmt)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return res
}

const createTestKeyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"

func TestNumbersAreNeverReused(t *testing.T) {
	c := openTest(t, NewMemoryStorage())
	apply(t, c, createTestKeyspace)
	apply(t, c, "CREATE TABLE t (k int PRIMARY KEY, a int, b int)")
	apply(t, c, "CREATE INDEX ON t (a)")
	first := c.Snapshot().Table("ks", "t")
	seen := map[uint32]bool{first.PhysID: true, first.Indexes[0].PhysID: true}
	if len(seen) != 2 {
		t.Fatalf("a table and its index share physical id %d", first.PhysID)
	}
	oldColumn := first.Columns["b"].ID
	apply(t, c, "ALTER TABLE t DROP b")
	apply(t, c, "ALTER TABLE t ADD b int")
	c = openTest(t, c.storage)
	apply(t, c, "ALTER TABLE t ADD c int")
	again := c.Snapshot().Table("ks", "t")
	b := again.Columns["b"]
	if b.ID != oldColumn || b.DroppedAt == 0 || !again.Gone(b.ID, b.DroppedAt) || again.Gone(b.ID, b.DroppedAt+1) {
		t.Errorf("a column that was dropped and added again: %+v, its id was %d", b, oldColumn)
	}
	if again.Columns["c"].ID == oldColumn {
		t.Errorf("a new column got the id of an older one")
	}
	apply(t, c, "ALTER TABLE t DROP c")
	if c.Snapshot().Table("ks", "t").ByID[again.Columns["c"].ID] != nil {
		t.Errorf("ByID still has the dropped column")
	}
	apply(t, c, "DROP TABLE t")
	c = openTest(t, c.storage)
	apply(t, c, "CREATE TABLE t (k int PRIMARY KEY, a int)")
	apply(t, c, "CREATE INDEX ON t (a)")
	last := c.Snapshot().Table("ks", "t")
	if seen[last.PhysID] || seen[last.Indexes[0].PhysID] {
		t.Errorf("physical ids %d and %d were used before: %v", last.PhysID, last.Indexes[0].PhysID, seen)
	}
	if last.ID == first.ID {
		t.Errorf("a table made anew has the id of the dropped one")
	}
}

func TestFailedSaveChangesNothing(t *testing.T) {
	st := &brittleStorage{MemoryStorage: NewMemoryStorage()}
	c := openTest(t, st)
	apply(t, c, createTestKeyspace)
	before := c.Snapshot()
	events := 0
	c.Subscribe(func(Event) { events++ })
	st.fail = errors.New("disk is gone")
	parsed, err := cql.Parse("CREATE TABLE t (k int PRIMARY KEY)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(context.Background(), "ks", parsed.Stmt); !errors.Is(err, st.fail) {
		t.Errorf("got %v, want the storage's error", err)
	}
	if c.Snapshot() != before || events != 0 {
		t.Errorf("a change that was not saved became visible (%d events)", events)
	}
	st.fail = nil
	apply(t, c, "CREATE TABLE t (k int PRIMARY KEY)")
	if events != 1 {
		t.Errorf("got %d events, want 1", events)
	}
}

func TestVersion(t *testing.T) {
	c := openTest(t, NewMemoryStorage())
	seen := map[UUID]string{c.Snapshot().Version: "nothing"}
	for _, text := range []string{
		createTestKeyspace, "CREATE TABLE t (k int PRIMARY KEY, a int)", "ALTER TABLE t ADD b int",
		"ALTER TABLE t WITH gc_grace_seconds = 1", "CREATE INDEX ON t (a)", "CREATE TYPE u (a int)",
		"ALTER TYPE u ADD b int", "ALTER KEYSPACE ks WITH durable_writes = false", "DROP TYPE u", "DROP TABLE t",
	} {
		apply(t, c, text)
		v := c.Snapshot().Version
		if before, dup := seen[v]; dup && text != "DROP TYPE u" {
			t.Errorf("%q left the version that %q gave", text, before)
		}
		seen[v] = text
		if v[6]>>4 != 3 {
			t.Errorf("version %s is not a UUID of version 3", v)
		}
		if again := openTest(t, c.storage).Snapshot().Version; again != v {
			t.Errorf("after %q the version is %s, after reopening %s", text, v, again)
		}
	}
	before := c.Snapshot()
	err := c.ChangeRoles(context.Background(), func(rc *RoleChange) error {
		rc.Put(&Role{Name: "r"})
		return nil
	})
	if err != nil || c.Snapshot().Version != before.Version {
		t.Errorf("a change of roles changed the schema version (%v)", err)
	}
}

func TestEvents(t *testing.T) {
	c := openTest(t, NewMemoryStorage())
	var got []string
	c.Subscribe(func(e Event) {
		// The new snapshot is in place when an event arrives.
		there := c.Snapshot().Keyspaces[e.Keyspace] != nil
		got = append(got, fmt.Sprintf("%s %s %s.%s keyspace=%v", e.Change, e.Target, e.Keyspace, e.Name, there))
	})
	for _, text := range []string{
		createTestKeyspace, "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy'}",
		"CREATE TABLE t (k int PRIMARY KEY, a int)", "CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY)",
		"CREATE TYPE u (a int)", "CREATE INDEX ON t (a)", "DROP INDEX t_a_idx", "DROP INDEX IF EXISTS t_a_idx",
		"ALTER TABLE t ADD b int", "ALTER TABLE t ADD IF NOT EXISTS b int", "DROP KEYSPACE ks", "DROP KEYSPACE IF EXISTS ks",
	} {
		apply(t, c, text)
	}
	want := []string{
		"CREATED KEYSPACE ks. keyspace=true", "CREATED TABLE ks.t keyspace=true", "CREATED TYPE ks.u keyspace=true",
		"UPDATED TABLE ks.t keyspace=true", "UPDATED TABLE ks.t keyspace=true", "UPDATED TABLE ks.t keyspace=true",
		"DROPPED TABLE ks.t keyspace=false", "DROPPED TYPE ks.u keyspace=false", "DROPPED KEYSPACE ks. keyspace=false",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestDroppedDataIsReported(t *testing.T) {
	c := openTest(t, NewMemoryStorage())
	apply(t, c, createTestKeyspace)
	apply(t, c, "CREATE TABLE t (k int PRIMARY KEY, a int, b int)")
	apply(t, c, "CREATE TABLE u (k int PRIMARY KEY)")
	built := apply(t, c, "CREATE INDEX ia ON t (a)")
	if len(built.Built) != 1 || built.BuiltTable == nil || !built.Built[0].Building {
		t.Fatalf("an index to be built is not reported: %+v", built)
	}
	x := built.Built[0]
	if err := c.IndexBuilt(context.Background(), "ks", x.Name, x.PhysID); err != nil {
		t.Fatal(err)
	}
	if _, now := c.Snapshot().Keyspaces["ks"].FindIndex("ia"); now.Building {
		t.Errorf("the index is still being built")
	}
	apply(t, c, "CREATE INDEX ib ON t (b)")
	if res := apply(t, c, "DROP INDEX ib"); len(res.DroppedIndexes) != 1 || res.DroppedIndexes[0].Name != "ib" {
		t.Errorf("dropped index: %+v", res.DroppedIndexes)
	}
	res := apply(t, c, "DROP KEYSPACE ks")
	if len(res.Dropped) != 2 || len(res.DroppedIndexes) != 1 {
		t.Errorf("dropping the keyspace reports %d tables and %d indexes, want 2 and 1",
			len(res.Dropped), len(res.DroppedIndexes))
	}
	if err := c.IndexBuilt(context.Background(), "ks", x.Name, x.PhysID); err != nil {
		t.Errorf("an index that is gone: %v", err)
	}
}

func TestRolesPersist(t *testing.T) {
	ctx := context.Background()
	c := openTest(t, NewMemoryStorage())
	if r := c.Snapshot().Roles[DefaultSuperuser]; r == nil || !r.DefaultPassword() ||
		!CheckPassword(r.SaltedHash, "cassandra") || CheckPassword(r.SaltedHash, "x") || CheckPassword("", "cassandra") {
		t.Fatalf("default superuser: %+v", r)
	}
	err := c.ChangeRoles(ctx, func(rc *RoleChange) error {
		rc.Put(&Role{
			Name: "a/b", Login: true, SaltedHash: "h", MemberOf: []string{"x", "c"},
			Grants: map[string][]string{"data/ks/t": {"SELECT", "ALTER"}, "roles/x": nil},
		})
		rc.Put(&Role{Name: "x"})
		rc.Put(&Role{Name: "c"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	checkReopens(t, c)
	if got := c.Snapshot().Roles["a/b"]; !slices.IsSorted(got.MemberOf) || len(got.Grants) != 1 {
		t.Errorf("role as put: %+v", got)
	}
	// What is dropped takes its grants and memberships along.
	apply(t, c, createTestKeyspace)
	apply(t, c, "CREATE TABLE t (k int PRIMARY KEY)")
	apply(t, c, "DROP TABLE t")
	err = c.ChangeRoles(ctx, func(rc *RoleChange) error { rc.Drop("x"); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Snapshot().Roles["a/b"]; len(got.Grants) != 0 || len(got.MemberOf) != 1 {
		t.Errorf("role after its table and a role of it were dropped: %+v", got)
	}
	refused := errors.New("no")
	before := c.Snapshot()
	err = c.ChangeRoles(ctx, func(rc *RoleChange) error { rc.Drop("c"); return refused })
	if !errors.Is(err, refused) || c.Snapshot() != before {
		t.Errorf("a refused change of roles was made (%v)", err)
	}
	checkReopens(t, c)
}

// TestUnknownForm checks that records of a later version are refused, not misread.
func TestUnknownForm(t *testing.T) {
	for key, value := range map[string]string{
		"ks/a":    `{"v":2,"replication":{},"durable_writes":true,"new":1}`,
		"ids":     `{"v":2,"next_phys":100}`,
		"other/x": `{"v":1}`,
		"ks/b":    `{"v":1,"surprise":1}`,
		"ks/a b":  `{"v":1,"replication":{},"durable_writes":true}`,
	} {
		st := NewMemoryStorage()
		if err := st.SaveRecords(context.Background(), []Record{{key, []byte(value)}}); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(context.Background(), st); err == nil || !strings.Contains(err.Error(), strings.Split(key, "/")[0]) {
			t.Errorf("record %s %s: got error %v, want one that names it", key, value, err)
		}
	}
}

// FuzzRecords checks that no record makes Open panic or accept what would let
// two tables share keys, and that what is accepted can be described.
func FuzzRecords(f *testing.F) {
	c, err := Open(context.Background(), NewMemoryStorage())
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		createTestKeyspace, "CREATE TYPE u (a int, b frozen<list<text>>)",
		"CREATE TABLE t (k int, c text, s int static, v list<int>, x frozen<u>, d text, PRIMARY KEY (k, c)) WITH comment = 'x'",
		"CREATE INDEX ON t (v)", "ALTER TABLE t DROP d",
	} {
		parsed, err := cql.Parse(text)
		if err != nil {
			f.Fatal(err)
		}
		if _, err := c.Apply(context.Background(), "ks", parsed.Stmt); err != nil {
			f.Fatal(err)
		}
	}
	records, err := c.storage.LoadRecords(context.Background())
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range records {
		f.Add(r.Key, r.Value)
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		st := NewMemoryStorage()
		if err := st.SaveRecords(context.Background(), append(slices.Clone(records), Record{key, value})); err != nil {
			t.Fatal(err)
		}
		got, err := Open(context.Background(), st)
		if err != nil {
			return
		}
		phys := map[uint32]bool{}
		for _, k := range got.Snapshot().Keyspaces {
			DescribeKeyspace(k)
			for _, u := range k.Types {
				DescribeType(u)
			}
			for _, table := range k.Tables {
				DescribeTable(table, true)
				if !table.Virtual && phys[table.PhysID] {
					t.Fatalf("two tables have physical id %d", table.PhysID)
				}
				phys[table.PhysID] = true
				for _, x := range table.Indexes {
					DescribeIndex(table, x)
					x.ValueType()
				}
			}
		}
	})
}

// BenchmarkOpen is the catalogue's share of a server's start.
func BenchmarkOpen(b *testing.B) {
	for range b.N {
		if _, err := Open(context.Background(), NewMemoryStorage()); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTypesStaySmall checks that types cannot be nested into something that
// takes for ever to walk.
func TestTypesStaySmall(t *testing.T) {
	c := openTest(t, NewMemoryStorage())
	apply(t, c, createTestKeyspace)
	apply(t, c, "CREATE TYPE u0 (a int)")
	for i := 1; i < 100; i++ {
		parsed, err := cql.Parse(fmt.Sprintf("CREATE TYPE u%d (a frozen<u%d>, b frozen<u%d>)", i, i-1, i-1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Apply(context.Background(), "ks", parsed.Stmt); err != nil {
			if i < 10 {
				t.Fatalf("%d types deep: %v", i, err)
			}
			return
		}
	}
	t.Error("a hundred types, each of two of the one before, were accepted")
}
