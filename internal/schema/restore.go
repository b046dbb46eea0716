package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

// decodeRecord reads JSON strictly and checks the version.
func decodeRecord(value []byte, into any, version *int) error {
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		// A later version may well have unknown fields: say that rather than name one.
		var v struct {
			V int `json:"v"`
		}
		if json.Unmarshal(value, &v) == nil && v.V > recordVersion {
			*version = v.V
		} else {
			return err
		}
	}
	if *version != recordVersion {
		return fmt.Errorf("form %d, this version reads %d", *version, recordVersion)
	}
	return nil
}

// restore builds the snapshot that records describe, over the system keyspaces.
func (c *Catalog) restore(records []Record) (*Snapshot, error) {
	snap := &Snapshot{Keyspaces: map[string]*Keyspace{}, Roles: map[string]*Role{}}
	if err := addSystemKeyspaces(snap); err != nil {
		return nil, err
	}
	byKind := map[string][]Record{}
	for _, r := range records {
		kind, _, _ := strings.Cut(r.Key, "/")
		byKind[kind] = append(byKind[kind], r)
		c.digest(r)
	}
	load := func(kind string, f func(Record) error) error {
		slices.SortFunc(byKind[kind], func(a, b Record) int { return strings.Compare(a.Key, b.Key) })
		for _, r := range byKind[kind] {
			if err := f(r); err != nil {
				return fmt.Errorf("record %q: %w", r.Key, err)
			}
		}
		delete(byKind, kind)
		return nil
	}
	for _, step := range []struct {
		kind    string
		restore func(Record) error
	}{
		{"ids", c.restoreIDs},
		{"ks", snap.restoreKeyspace},
		{"type", nil},
		{"table", snap.restoreTable},
		{"role", snap.restoreRole},
	} {
		err := error(nil)
		if step.kind == "type" {
			err = snap.restoreTypes(byKind["type"])
			delete(byKind, "type")
		} else {
			err = load(step.kind, step.restore)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(byKind) > 0 {
		return nil, fmt.Errorf("records of unknown kinds: %v", slices.Sorted(maps.Keys(byKind)))
	}
	return snap, c.checkPhysIDs(snap)
}

func (c *Catalog) restoreIDs(r Record) error {
	var rec idsRecord
	if err := decodeRecord(r.Value, &rec, &rec.Version); err != nil {
		return err
	}
	if rec.NextPhys < FirstUserPhysID {
		return fmt.Errorf("next physical id %d is among the system's", rec.NextPhys)
	}
	c.nextPhys = rec.NextPhys
	return nil
}

// checkPhysIDs refuses records that would let two tables share keys.
func (c *Catalog) checkPhysIDs(snap *Snapshot) error {
	seen := map[uint32]string{}
	for _, k := range snap.Keyspaces {
		for _, t := range k.Tables {
			ids := map[uint32]string{}
			if t.Virtual {
				continue
			}
			ids[t.PhysID] = t.Keyspace + "." + t.Name
			for _, x := range t.Indexes {
				if other, dup := ids[x.PhysID]; dup {
					return fmt.Errorf("index %s and %s have one physical id, %d", x.Name, other, x.PhysID)
				}
				ids[x.PhysID] = "index " + x.Name
			}
			for id, name := range ids {
				if other, dup := seen[id]; dup {
					return fmt.Errorf("%s and %s have one physical id, %d", name, other, id)
				}
				if !t.System && (id >= c.nextPhys || id < FirstUserPhysID) {
					return fmt.Errorf("%s has physical id %d, outside [%d, %d)", name, id, FirstUserPhysID, c.nextPhys)
				}
				seen[id] = name
			}
		}
	}
	return nil
}

func (s *Snapshot) restoreKeyspace(r Record) error {
	var rec keyspaceRecord
	if err := decodeRecord(r.Value, &rec, &rec.Version); err != nil {
		return err
	}
	name := strings.TrimPrefix(r.Key, keyspacePrefix)
	if !validName(name) {
		return fmt.Errorf("%q is not a keyspace name", name)
	}
	if k := s.Keyspaces[name]; k != nil {
		// The replication of a system keyspace was altered.
		k.Replication, k.DurableWrites = rec.Replication, rec.DurableWrites
		return nil
	}
	s.Keyspaces[name] = &Keyspace{
		Name: name, Replication: rec.Replication, DurableWrites: rec.DurableWrites,
		Tables: map[string]*Table{}, Types: map[string]*cqltype.Type{},
	}
	return nil
}

// restoreTypes resolves user types in an order in which each finds those it is made of.
func (s *Snapshot) restoreTypes(records []Record) error {
	for len(records) > 0 {
		var later []Record
		var last error
		for _, r := range records {
			if err := s.restoreType(r); err != nil {
				later, last = append(later, r), fmt.Errorf("record %q: %w", r.Key, err)
			}
		}
		if len(later) == len(records) {
			return last
		}
		records = later
	}
	return nil
}

func (s *Snapshot) owner(key, prefix string) (k *Keyspace, name string, err error) {
	ks, name, ok := strings.Cut(strings.TrimPrefix(key, prefix), "/")
	if !ok || name == "" {
		return nil, "", errors.New("key does not name an object in a keyspace")
	}
	if k = s.Keyspaces[ks]; k == nil || k.System {
		return nil, "", fmt.Errorf("no keyspace %q", ks)
	}
	return k, name, nil
}

func (s *Snapshot) restoreType(r Record) error {
	k, name, err := s.owner(r.Key, typePrefix)
	if err != nil {
		return err
	}
	var rec typeRecord
	if err := decodeRecord(r.Value, &rec, &rec.Version); err != nil {
		return err
	}
	if len(rec.Fields) != len(rec.Types) {
		return fmt.Errorf("%d field names for %d types", len(rec.Fields), len(rec.Types))
	}
	t := &cqltype.Type{Kind: cqltype.KindUDT, Keyspace: k.Name, Name: name, FieldNames: rec.Fields}
	for _, text := range rec.Types {
		e, err := s.restoreColumnType(k.Name, text)
		if err != nil {
			return err
		}
		t.Elems = append(t.Elems, e)
	}
	k.Types[name] = t
	return nil
}

func (s *Snapshot) restoreColumnType(ks, text string) (*cqltype.Type, error) {
	ref, err := cql.ParseType(text)
	if err != nil {
		return nil, fmt.Errorf("type %q: %w", text, err)
	}
	t, err := s.ResolveType(ks, ref)
	if err != nil {
		return nil, fmt.Errorf("type %q: %w", text, err)
	}
	return t, nil
}

func (s *Snapshot) restoreTable(r Record) error {
	k, name, err := s.owner(r.Key, tablePrefix)
	if err != nil {
		return err
	}
	var rec tableRecord
	if err := decodeRecord(r.Value, &rec, &rec.Version); err != nil {
		return err
	}
	id, err := ParseUUID(rec.ID)
	if err != nil {
		return err
	}
	if rec.NextColumn < 0 || rec.NextColumn > maxColumnIDs {
		return fmt.Errorf("next column id %d is out of range", rec.NextColumn)
	}
	t := &Table{
		ID: id, PhysID: rec.Phys, Keyspace: k.Name, Name: name,
		Options: rec.Options, Counter: rec.Counter, ByID: make([]*Column, rec.NextColumn),
	}
	for _, cr := range rec.Columns {
		typ, err := s.restoreColumnType(k.Name, cr.Type)
		if err != nil {
			return fmt.Errorf("column %q: %w", cr.Name, err)
		}
		if int(cr.ID) >= len(t.ByID) || t.ByID[cr.ID] != nil || cr.Kind > Regular {
			return fmt.Errorf("column %q: bad id %d or kind %d", cr.Name, cr.ID, cr.Kind)
		}
		t.ByID[cr.ID] = &Column{ID: cr.ID, Name: cr.Name, Kind: cr.Kind, Position: cr.Position, Desc: cr.Desc, Type: typ, DroppedAt: cr.DroppedAt}
	}
	if err := t.arrange(); err != nil {
		return err
	}
	for _, x := range rec.Indexes {
		col := t.Columns[x.Column]
		if col == nil {
			return fmt.Errorf("index %q is on column %q, which is not there", x.Name, x.Column)
		}
		index := &Index{
			Name: x.Name, PhysID: x.Phys, Kind: x.Kind, Column: col,
			Target: x.Target, Options: x.Options, Class: x.Class, Building: x.Building,
		}
		if err := index.check(); err != nil {
			return err
		}
		t.Indexes = append(t.Indexes, index)
	}
	for _, dr := range rec.Dropped {
		typ, err := s.restoreColumnType(k.Name, dr.Type)
		if err != nil {
			return fmt.Errorf("dropped column %q: %w", dr.Name, err)
		}
		if int(dr.ID) >= len(t.ByID) || t.ByID[dr.ID] != nil && t.ByID[dr.ID].Name != dr.Name {
			return fmt.Errorf("dropped column %q has id %d, which is not its own", dr.Name, dr.ID)
		}
		t.Dropped = append(t.Dropped, DroppedColumn{dr.ID, dr.Name, dr.Kind, typ, dr.DroppedAt})
	}
	k.Tables[name] = t
	return nil
}

func (s *Snapshot) restoreRole(r Record) error {
	var rec roleRecord
	if err := decodeRecord(r.Value, &rec, &rec.Version); err != nil {
		return err
	}
	name := strings.TrimPrefix(r.Key, rolePrefix)
	s.Roles[name] = &Role{
		Name: name, Superuser: rec.Superuser, Login: rec.Login, SaltedHash: rec.SaltedHash,
		MemberOf: rec.MemberOf, Grants: rec.Grants, Options: rec.Options,
	}
	return nil
}
