package schema

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

// recordVersion is the version of the records' form. A record of a later
// version is refused rather than read in part.
const recordVersion = 1

const (
	idsKey         = "ids"
	keyspacePrefix = "ks/"
	tablePrefix    = "table/"
	typePrefix     = "type/"
	rolePrefix     = "role/"
)

func keyspaceKey(name string) string  { return keyspacePrefix + name }
func tableKey(ks, name string) string { return tablePrefix + ks + "/" + name }
func typeKey(ks, name string) string  { return typePrefix + ks + "/" + name }
func roleKey(name string) string      { return rolePrefix + name }

// isSchemaKey reports a record that counts in the schema version.
func isSchemaKey(key string) bool {
	return strings.HasPrefix(key, keyspacePrefix) || strings.HasPrefix(key, tablePrefix) ||
		strings.HasPrefix(key, typePrefix)
}

type idsRecord struct {
	Version  int    `json:"v"`
	NextPhys uint32 `json:"next_phys"`
}

type keyspaceRecord struct {
	Version       int               `json:"v"`
	Replication   map[string]string `json:"replication"`
	DurableWrites bool              `json:"durable_writes"`
}

type typeRecord struct {
	Version int      `json:"v"`
	Fields  []string `json:"fields"`
	Types   []string `json:"types"`
}

type columnRecord struct {
	ID       uint16     `json:"id"`
	Name     string     `json:"name"`
	Kind     ColumnKind `json:"kind"`
	Position int        `json:"position,omitempty"`
	Desc     bool       `json:"desc,omitempty"`
	Type     string     `json:"type"`
	// DroppedAt is set of a column that was dropped and added again.
	DroppedAt int64 `json:"dropped_at,omitempty"`
}

type indexRecord struct {
	Name    string            `json:"name"`
	Phys    uint32            `json:"phys"`
	Kind    IndexKind         `json:"kind"`
	Column  string            `json:"column"`
	Target  string            `json:"target,omitempty"`
	Options map[string]string `json:"options,omitempty"`
	Class   string            `json:"class,omitempty"`
	// Building is part of the stored form so that a build that a crash ended is begun again.
	Building bool `json:"building,omitempty"`
}

type droppedRecord struct {
	ID        uint16     `json:"id"`
	Name      string     `json:"name"`
	Kind      ColumnKind `json:"kind"`
	Type      string     `json:"type"`
	DroppedAt int64      `json:"dropped_at"`
}

type tableRecord struct {
	Version    int             `json:"v"`
	ID         string          `json:"id"`
	Phys       uint32          `json:"phys"`
	Columns    []columnRecord  `json:"columns"`
	NextColumn int             `json:"next_column"`
	Options    TableOptions    `json:"options"`
	Indexes    []indexRecord   `json:"indexes,omitempty"`
	Dropped    []droppedRecord `json:"dropped,omitempty"`
	Counter    bool            `json:"counter,omitempty"`
}

type roleRecord struct {
	Version    int                 `json:"v"`
	Superuser  bool                `json:"superuser,omitempty"`
	Login      bool                `json:"login,omitempty"`
	SaltedHash string              `json:"salted_hash,omitempty"`
	MemberOf   []string            `json:"member_of,omitempty"`
	Grants     map[string][]string `json:"grants,omitempty"`
	Options    map[string]string   `json:"options,omitempty"`
}

// encode makes the record of a key from the draft; nil when the object is gone.
func (d *draft) encode(key string) ([]byte, error) {
	kind, rest, _ := strings.Cut(key, "/")
	switch kind {
	case "ids":
		return json.Marshal(idsRecord{recordVersion, d.nextPhys})
	case "ks":
		if k := d.snap.Keyspaces[rest]; k != nil {
			return json.Marshal(keyspaceRecord{recordVersion, k.Replication, k.DurableWrites})
		}
	case "table":
		ks, name, _ := strings.Cut(rest, "/")
		if t := d.snap.Table(ks, name); t != nil {
			return json.Marshal(encodeTable(t))
		}
	case "type":
		ks, name, _ := strings.Cut(rest, "/")
		if k := d.snap.Keyspaces[ks]; k != nil && k.Types[name] != nil {
			return json.Marshal(encodeType(k.Types[name]))
		}
	case "role":
		if r := d.snap.Roles[rest]; r != nil {
			return json.Marshal(roleRecord{
				recordVersion, r.Superuser, r.Login, r.SaltedHash, r.MemberOf, r.Grants, r.Options,
			})
		}
	}
	return nil, nil
}

func encodeType(t *cqltype.Type) typeRecord {
	r := typeRecord{Version: recordVersion, Fields: t.FieldNames}
	for _, e := range t.Elems {
		r.Types = append(r.Types, e.String())
	}
	return r
}

func encodeTable(t *Table) tableRecord {
	r := tableRecord{
		Version: recordVersion, ID: t.ID.String(), Phys: t.PhysID, NextColumn: len(t.ByID),
		Options: t.Options, Counter: t.Counter,
	}
	for _, c := range t.ByID {
		if c != nil {
			r.Columns = append(r.Columns, columnRecord{c.ID, c.Name, c.Kind, c.Position, c.Desc, c.Type.String(), c.DroppedAt})
		}
	}
	for _, x := range t.Indexes {
		r.Indexes = append(r.Indexes, indexRecord{
			x.Name, x.PhysID, x.Kind, x.Column.Name, x.Target, x.Options, x.Class, x.Building,
		})
	}
	for _, c := range t.Dropped {
		r.Dropped = append(r.Dropped, droppedRecord{c.ID, c.Name, c.Kind, c.Type.String(), c.DroppedAt})
	}
	return r
}

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
	if rec.NextPhys < firstUserPhysID {
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
				if !t.System && (id >= c.nextPhys || id < firstUserPhysID) {
					return fmt.Errorf("%s has physical id %d, outside [%d, %d)", name, id, firstUserPhysID, c.nextPhys)
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

// String returns the UUID in its usual form.
func (u UUID) String() string {
	var b [36]byte
	hex.Encode(b[:8], u[:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:], u[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// ParseUUID reads a UUID in its usual form.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, fmt.Errorf("%q is not a UUID", s)
	}
	plain := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(u[:], []byte(plain)); err != nil {
		return u, fmt.Errorf("%q is not a UUID", s)
	}
	return u, nil
}
