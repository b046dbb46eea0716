package schema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

// properties are the WITH properties of one statement. Accessors refuse a
// value of the wrong shape with Cassandra's texts.
type properties map[string]cql.Property

// collect indexes a statement's properties and refuses repeated and unknown ones.
func collect(with []cql.Property, known map[string]bool) (properties, error) {
	ps := properties{}
	for _, p := range with {
		name := strings.ToLower(p.Name)
		if _, dup := ps[name]; dup {
			return nil, syntax("Multiple definitions for property '%s'", name)
		}
		ps[name] = p
	}
	for _, name := range slices.Sorted(maps.Keys(ps)) {
		if !known[name] {
			return nil, syntax("Unknown property '%s'", name)
		}
	}
	return ps, nil
}

func (ps properties) has(name string) bool {
	_, ok := ps[name]
	return ok
}

func (ps properties) text(name string) (string, error) {
	p := ps[name]
	if p.Value == nil {
		return "", syntax("Invalid value for property '%s'. It should be a string", name)
	}
	return literalText(p.Value), nil
}

// literalText is a constant as a property value: Cassandra takes properties as
// text however they are written.
func literalText(l *cql.Literal) string {
	if l.Kind == cqltype.LitBoolean {
		return strings.ToLower(l.Text)
	}
	return l.Text
}

func (ps properties) mapping(name string) (map[string]string, error) {
	p := ps[name]
	if p.Value != nil {
		return nil, syntax("Invalid value for property '%s'. It should be a map.", name)
	}
	if p.Map == nil {
		return map[string]string{}, nil
	}
	return maps.Clone(p.Map), nil
}

func (ps properties) boolean(name string) (bool, error) {
	s, err := ps.text(name)
	if err != nil {
		return false, err
	}
	switch strings.ToLower(s) {
	case "1", "true", "yes":
		return true, nil
	case "0", "false", "no":
		return false, nil
	}
	return false, syntax("Invalid boolean value %s for '%s'. Positive values can be '1', 'true' or 'yes'. "+
		"Negative values can be '0', 'false' or 'no'.", s, name)
}

func (ps properties) integer(name string) (int32, error) {
	s, err := ps.text(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, syntax("Invalid integer value %s for '%s'", s, name)
	}
	return int32(n), nil
}

func (ps properties) double(name string) (float64, error) {
	s, err := ps.text(name)
	if err != nil {
		return 0, err
	}
	f, ok := parseDouble(s)
	if !ok {
		return 0, syntax("Invalid double value %s for '%s'", s, name)
	}
	return f, nil
}

// parseDouble reads a number as Java's Double.parseDouble does as far as
// people write them: no underscores, no short forms of infinity.
func parseDouble(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	if strings.ContainsAny(s, "_xX") || strings.EqualFold(s, "inf") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.TrimRight(s, "dDfF"), 64)
	return f, err == nil
}

// keyspaceName is the keyspace a statement is about: the one written, or the session's.
func (d *draft) keyspaceName(written string) (string, error) {
	if written != "" {
		return written, nil
	}
	if d.session == "" {
		return "", invalid("No keyspace has been specified. USE a keyspace, " +
			"or explicitly specify keyspace.tablename")
	}
	return d.session, nil
}

// changeable refuses changes of system keyspaces. permission and resource
// (as Cassandra prints it) are what the change would need.
func (d *draft) changeable(name, permission, resource string) error {
	k := d.snap.Keyspaces[name]
	switch {
	case k == nil || !k.System:
		return nil
	case replicatedSystem[name]:
		return unauthorized("Cannot %s %s", permission, resource)
	}
	return unauthorized("%s keyspace is not user-modifiable.", name)
}

func shownKeyspace(ks string) string    { return "<keyspace " + ks + ">" }
func shownTables(ks string) string      { return "<all tables in " + ks + ">" }
func shownTable(ks, name string) string { return "<table " + ks + "." + name + ">" }

// validName reports [a-zA-Z0-9_]+, what keyspaces and tables may be called.
func validName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
		default:
			return false
		}
	}
	return name != ""
}
