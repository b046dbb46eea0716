package schema

import (
	"crypto/md5" // UUIDs of version 3 are made with it; nothing secret is
	_ "embed"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

// systemSource defines the system tables.
//
//go:embed system.cql
var systemSource string

// diagnosisSource defines those of the system tables that tell what the server found.
//
//go:embed diagnosis.cql
var diagnosisSource string

// Physical ids of the system tables that are stored. They are part of the
// stored form and must never change.
const (
	physTraceSessions uint32 = 1
	physTraceEvents   uint32 = 2
)

var storedSystem = map[string]uint32{
	"system_traces.sessions": physTraceSessions,
	"system_traces.events":   physTraceEvents,
}

// virtualKeyspaces are those that clients see as virtual. The tables of
// system and system_schema are virtual too as far as storage goes, but
// clients know them as ordinary ones.
var virtualKeyspaces = map[string]bool{"system_views": true, "system_virtual_schema": true}

// systemReplication is what system_schema.keyspaces shows.
var systemReplication = map[string]map[string]string{
	"system":                {"class": strategyPackage + "LocalStrategy"},
	"system_schema":         {"class": strategyPackage + "LocalStrategy"},
	"system_auth":           {"class": strategyPackage + "SimpleStrategy", "replication_factor": "1"},
	"system_distributed":    {"class": strategyPackage + "SimpleStrategy", "replication_factor": "3"},
	"system_traces":         {"class": strategyPackage + "SimpleStrategy", "replication_factor": "2"},
	"system_views":          {"class": strategyPackage + "LocalStrategy"},
	"system_virtual_schema": {"class": strategyPackage + "LocalStrategy"},
	"varve":                 {"class": strategyPackage + "LocalStrategy"},
}

// systemTables parses the system tables once; they are shared by all catalogues.
var systemTables = sync.OnceValues(func() ([]*Table, error) {
	d := &draft{
		snap:   &Snapshot{Keyspaces: map[string]*Keyspace{}},
		copied: map[string]bool{}, dirty: map[string]bool{}, now: time.Unix(0, 0),
	}
	var tables []*Table
	for _, text := range strings.SplitAfter(systemSource+diagnosisSource, ";\n") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		parsed, err := cql.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("system table %.60q: %w", strings.TrimSpace(text), err)
		}
		st, ok := parsed.Stmt.(*cql.CreateTable)
		if !ok {
			return nil, fmt.Errorf("system table %.60q: %T", text, parsed.Stmt)
		}
		t, err := d.buildTable(st.Table.Keyspace, st)
		if err != nil {
			return nil, fmt.Errorf("system table %s: %w", st.Table.Name, err)
		}
		sum := md5.Sum([]byte(t.Keyspace + t.Name))
		t.ID = nameUUID(sum[:])
		t.System = true
		t.Comment = t.Options.Comment
		t.PhysID = storedSystem[t.Keyspace+"."+t.Name]
		t.Virtual = t.PhysID == 0
		tables = append(tables, t)
	}
	return tables, nil
})

// addSystemKeyspaces puts the system keyspaces into an empty snapshot.
func addSystemKeyspaces(s *Snapshot) error {
	for name, replication := range systemReplication {
		s.Keyspaces[name] = &Keyspace{
			Name: name, Replication: maps.Clone(replication), DurableWrites: true,
			Tables: map[string]*Table{}, Types: map[string]*cqltype.Type{},
			Virtual: virtualKeyspaces[name], System: true,
		}
	}
	tables, err := systemTables()
	if err != nil {
		return err
	}
	for _, t := range tables {
		k := s.Keyspaces[t.Keyspace]
		if k == nil {
			return fmt.Errorf("system table %s.%s has no keyspace", t.Keyspace, t.Name)
		}
		k.Tables[t.Name] = t
	}
	return nil
}
