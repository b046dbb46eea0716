package schema

import (
	"encoding/json"
	"strings"

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
