package schema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

// maxNameLength is the longest name of a keyspace (SchemaConstants.NAME_LENGTH).
const maxNameLength = 48

var keyspaceProperties = map[string]bool{"replication": true, "durable_writes": true}

const strategyPackage = "org.apache.cassandra.locator."

const repairWarning = "When increasing replication factor you need to run a full (-full) repair to distribute the data."

func (d *draft) createKeyspace(st *cql.CreateKeyspace) (*Result, error) {
	if k := d.snap.Keyspaces[st.Name]; k != nil && k.System && !replicatedSystem[st.Name] {
		return nil, invalid("System keyspace '%s' is not user-modifiable", st.Name)
	}
	if !validName(st.Name) {
		return nil, invalid("Keyspace name must not be empty and must contain alphanumeric or underscore "+
			"characters only (got \"%s\")", st.Name)
	}
	if len(st.Name) > maxNameLength {
		return nil, invalid("Keyspace name must not be more than %d characters long (got %d characters for \"%s\")",
			maxNameLength, len(st.Name), st.Name)
	}
	ps, err := collect(st.With, keyspaceProperties)
	if err != nil {
		return nil, err
	}
	if !ps.has("replication") {
		return nil, invalid("Missing mandatory option 'replication'")
	}
	if d.snap.Keyspaces[st.Name] != nil {
		if st.IfNotExists {
			return &Result{}, nil
		}
		return nil, keyspaceExists(st.Name)
	}
	k := &Keyspace{
		Name: st.Name, DurableWrites: true,
		Tables: map[string]*Table{}, Types: map[string]*cqltype.Type{},
	}
	if err := d.setKeyspaceOptions(k, ps); err != nil {
		return nil, err
	}
	d.snap.Keyspaces[st.Name] = k
	d.copied[st.Name] = true
	d.dirty[keyspaceKey(st.Name)] = true
	return &Result{
		Event:    &Event{Change: "CREATED", Target: "KEYSPACE", Keyspace: st.Name},
		Warnings: d.replicationWarnings(k),
	}, nil
}

// replicatedSystem are the system keyspaces whose replication may be changed.
var replicatedSystem = map[string]bool{"system_auth": true, "system_distributed": true, "system_traces": true}

func (d *draft) alterKeyspace(st *cql.AlterKeyspace) (*Result, error) {
	if !replicatedSystem[st.Name] {
		if err := d.changeable(st.Name, "ALTER", shownKeyspace(st.Name)); err != nil {
			return nil, err
		}
	}
	ps, err := collect(st.With, keyspaceProperties)
	if err != nil {
		return nil, err
	}
	if d.snap.Keyspaces[st.Name] == nil {
		if st.IfExists {
			return &Result{}, nil
		}
		return nil, noKeyspace(st.Name)
	}
	k := d.keyspace(st.Name)
	before := replicas(k.Replication)
	if err := d.setKeyspaceOptions(k, ps); err != nil {
		return nil, err
	}
	d.dirty[keyspaceKey(st.Name)] = true
	res := &Result{
		Event:    &Event{Change: "UPDATED", Target: "KEYSPACE", Keyspace: st.Name},
		Warnings: d.replicationWarnings(k),
	}
	if replicas(k.Replication) > before {
		res.Warnings = append(res.Warnings, repairWarning)
	}
	return res, nil
}

func (d *draft) dropKeyspace(st *cql.DropKeyspace) (*Result, error) {
	if err := d.changeable(st.Name, "DROP", shownKeyspace(st.Name)); err != nil {
		return nil, err
	}
	k := d.snap.Keyspaces[st.Name]
	if k == nil {
		if st.IfExists {
			return &Result{}, nil
		}
		return nil, noKeyspace(st.Name)
	}
	res := &Result{Event: &Event{Change: "DROPPED", Target: "KEYSPACE", Keyspace: st.Name}}
	for _, name := range slices.Sorted(maps.Keys(k.Tables)) {
		t := k.Tables[name]
		res.Dropped = append(res.Dropped, t)
		res.DroppedIndexes = append(res.DroppedIndexes, t.Indexes...)
		res.Implied = append(res.Implied, Event{Change: "DROPPED", Target: "TABLE", Keyspace: k.Name, Name: name})
		d.dirty[tableKey(k.Name, name)] = true
		d.revokeAll(tableResource(k.Name, name))
	}
	for _, name := range slices.Sorted(maps.Keys(k.Types)) {
		res.Implied = append(res.Implied, Event{Change: "DROPPED", Target: "TYPE", Keyspace: k.Name, Name: name})
		d.dirty[typeKey(k.Name, name)] = true
	}
	d.revokeAll(keyspaceResource(k.Name), tableResource(k.Name, "*"), functionsResource(k.Name))
	delete(d.snap.Keyspaces, st.Name)
	d.dirty[keyspaceKey(st.Name)] = true
	return res, nil
}

func (d *draft) setKeyspaceOptions(k *Keyspace, ps properties) error {
	if ps.has("durable_writes") {
		v, err := ps.boolean("durable_writes")
		if err != nil {
			return err
		}
		k.DurableWrites = v
	}
	if !ps.has("replication") {
		return nil
	}
	options, err := ps.mapping("replication")
	if err != nil {
		return err
	}
	r, err := d.replication(k.Name, options, k.Replication)
	if err != nil {
		return err
	}
	k.Replication = r
	return nil
}

// replication checks replication options as Cassandra's strategies do and
// returns them in stored form; before is what an altered keyspace had.
func (d *draft) replication(ks string, options, before map[string]string) (map[string]string, error) {
	class := options["class"]
	delete(options, "class")
	if class == "" {
		return nil, misconfigured("Missing replication strategy class")
	}
	if !strings.Contains(class, ".") {
		class = strategyPackage + class
	}
	stored := map[string]string{"class": class}
	switch strings.TrimPrefix(class, strategyPackage) {
	case "SimpleStrategy":
		for _, key := range slices.Sorted(maps.Keys(options)) {
			if key != "replication_factor" {
				return nil, misconfigured("Unrecognized strategy option {%s} passed to SimpleStrategy for keyspace %s", key, ks)
			}
		}
		if _, given := options["replication_factor"]; !given {
			options["replication_factor"] = defaultReplication
		}
	case "NetworkTopologyStrategy":
		if err := d.expandTopology(ks, options, before); err != nil {
			return nil, err
		}
	case "LocalStrategy":
		return nil, invalid("Unable to use given strategy class: LocalStrategy is reserved for internal use.")
	case "OldNetworkTopologyStrategy":
		return nil, misconfigured("The support for the OldNetworkTopologyStrategy has been removed in C* version 4.0. " +
			"The keyspace strategy should be switch to NetworkTopologyStrategy")
	default:
		return nil, misconfigured("Unable to find replication strategy class '%s'", class)
	}
	for _, key := range slices.Sorted(maps.Keys(options)) {
		if err := checkReplicationFactor(options[key]); err != nil {
			return nil, err
		}
		stored[key] = options[key]
	}
	return stored, nil
}

// expandTopology replaces replication_factor by one option for our
// datacenter and refuses datacenters that are not there.
func (d *draft) expandTopology(ks string, options, before map[string]string) error {
	factor, given := options["replication_factor"]
	delete(options, "replication_factor")
	if !given && len(options) == 0 {
		// Without options an altered keyspace keeps its factor.
		if factor, given = before["replication_factor"], true; factor == "" {
			factor = defaultReplication
		}
	}
	if kept := before[d.datacenter]; given && kept != "" && options[d.datacenter] == "" {
		// The general factor is for datacenters that are new to the keyspace.
		factor = kept
	}
	if given && options[d.datacenter] == "" {
		if n, err := strconv.Atoi(factor); err == nil && n < 0 {
			factor = "0"
		}
		options[d.datacenter] = factor
	}
	for _, dc := range slices.Sorted(maps.Keys(options)) {
		if dc != d.datacenter {
			return misconfigured("Unrecognized strategy option {%s} passed to NetworkTopologyStrategy for keyspace %s", dc, ks)
		}
		if options[dc] == "0" {
			delete(options, dc)
		}
	}
	if len(options) == 0 {
		return misconfigured("Configuration for at least one datacenter must be present")
	}
	return nil
}

// defaultReplication is default_keyspace_rf of cassandra.yaml.
const defaultReplication = "1"

func checkReplicationFactor(s string) error {
	if strings.Contains(s, "/") {
		return misconfigured("Transient replication is not enabled on this node")
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return misconfigured("For input string: \"%s\"", s)
	}
	if n < 0 {
		return misconfigured("Replication factor must be non-negative, found %s", s)
	}
	return nil
}

// replicas is the total replication factor.
func replicas(replication map[string]string) int {
	total := 0
	for key, value := range replication {
		if key != "class" {
			n, _ := strconv.Atoi(value)
			total += n
		}
	}
	return total
}

// replicationWarnings tells, as Cassandra does, that one node holds one copy
// whatever the keyspace asks for.
func (d *draft) replicationWarnings(k *Keyspace) []string {
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(k.Replication)) {
		n, err := strconv.Atoi(k.Replication[key])
		if key == "class" || err != nil || n <= 1 {
			continue
		}
		w := "Your replication factor " + k.Replication[key] + " for keyspace " + k.Name +
			" is higher than the number of nodes 1"
		if key != "replication_factor" {
			w += " for datacenter " + key
		}
		warnings = append(warnings, w)
	}
	return warnings
}
