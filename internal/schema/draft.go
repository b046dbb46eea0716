package schema

import (
	"context"
	"crypto/md5" // UUIDs of version 3 are made with it; nothing secret is
	"fmt"
	"maps"
	"slices"
	"time"
)

// draft is the next snapshot while a change is being made. It shares with the
// current one whatever it does not change.
type draft struct {
	snap       *Snapshot
	copied     map[string]bool // keyspaces that belong to the draft alone
	dirty      map[string]bool // keys of records to save or delete
	nextPhys   uint32
	session    string // keyspace of the session
	datacenter string
	now        time.Time
}

func (c *Catalog) draft() *draft {
	cur := c.current.Load()
	return &draft{
		snap:       &Snapshot{Version: cur.Version, Keyspaces: maps.Clone(cur.Keyspaces), Roles: maps.Clone(cur.Roles)},
		copied:     map[string]bool{},
		dirty:      map[string]bool{},
		nextPhys:   c.nextPhys,
		datacenter: c.datacenter,
		now:        c.now(),
	}
}

// keyspace returns a keyspace for changing; nil when there is none.
func (d *draft) keyspace(name string) *Keyspace {
	k := d.snap.Keyspaces[name]
	if k == nil || d.copied[name] {
		return k
	}
	n := *k
	n.Tables, n.Types = maps.Clone(k.Tables), maps.Clone(k.Types)
	d.copied[name] = true
	d.snap.Keyspaces[name] = &n
	return &n
}

func (d *draft) putTable(t *Table) {
	d.keyspace(t.Keyspace).Tables[t.Name] = t
	d.dirty[tableKey(t.Keyspace, t.Name)] = true
}

// tableChanges lists what the draft changes of the tables of old, by name.
func (d *draft) tableChanges(old *Snapshot) []TableChange {
	var out []TableChange
	for _, name := range slices.Sorted(maps.Keys(old.Keyspaces)) {
		k, now := old.Keyspaces[name], d.snap.Keyspaces[name]
		if k == now {
			continue
		}
		for _, table := range slices.Sorted(maps.Keys(k.Tables)) {
			c := TableChange{Old: k.Tables[table]}
			if now != nil {
				c.New = now.Tables[table]
			}
			if c.New != c.Old {
				out = append(out, c)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.snap.Keyspaces)) {
		k, was := d.snap.Keyspaces[name], old.Keyspaces[name]
		if k == was {
			continue
		}
		for _, table := range slices.Sorted(maps.Keys(k.Tables)) {
			if was == nil || was.Tables[table] == nil {
				out = append(out, TableChange{New: k.Tables[table]})
			}
		}
	}
	return out
}

// phys gives out a physical id. Ids of refused changes are given out again;
// those of persisted ones never are.
func (d *draft) phys() (uint32, error) {
	if d.nextPhys == ^uint32(0) {
		return 0, invalid("No physical table ids are left")
	}
	id := d.nextPhys
	d.nextPhys++
	return id, nil
}

// commit persists a draft and makes it the current snapshot.
func (c *Catalog) commit(ctx context.Context, d *draft) error {
	if len(d.dirty) == 0 {
		return nil
	}
	if d.nextPhys != c.nextPhys {
		d.dirty[idsKey] = true
	}
	records := make([]Record, 0, len(d.dirty))
	for _, key := range slices.Sorted(maps.Keys(d.dirty)) {
		value, err := d.encode(key)
		if err != nil {
			return fmt.Errorf("encode catalogue record %q: %w", key, err)
		}
		records = append(records, Record{Key: key, Value: value})
	}
	if err := c.storage.SaveRecords(ctx, records); err != nil {
		return fmt.Errorf("save catalogue: %w", err)
	}
	for _, r := range records {
		c.digest(r)
	}
	c.nextPhys = d.nextPhys
	d.snap.Version = c.version()
	c.current.Store(d.snap)
	return nil
}

// digest notes a record for the schema version.
func (c *Catalog) digest(r Record) {
	switch {
	case !isSchemaKey(r.Key):
	case r.Value == nil:
		delete(c.digests, r.Key)
	default:
		c.digests[r.Key] = md5.Sum(r.Value)
	}
}

// version derives the schema version from the content of all keyspaces, so
// that it is the same after a restart and differs after each change.
func (c *Catalog) version() UUID {
	h := md5.New()
	h.Write([]byte(systemSource + diagnosisSource))
	for _, key := range slices.Sorted(maps.Keys(c.digests)) {
		sum := c.digests[key]
		h.Write([]byte(key))
		h.Write([]byte{0})
		h.Write(sum[:])
	}
	return nameUUID(h.Sum(nil))
}
