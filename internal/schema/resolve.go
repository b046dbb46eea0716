package schema

import (
	"strconv"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

var nativeTypes = map[string]*cqltype.Type{
	"ascii": cqltype.Ascii, "bigint": cqltype.Bigint, "blob": cqltype.Blob,
	"boolean": cqltype.Boolean, "counter": cqltype.Counter, "date": cqltype.Date,
	"decimal": cqltype.Decimal, "double": cqltype.Double, "duration": cqltype.Duration,
	"float": cqltype.Float, "inet": cqltype.Inet, "int": cqltype.Int,
	"smallint": cqltype.Smallint, "text": cqltype.Text, "varchar": cqltype.Text,
	"time": cqltype.Time, "timestamp": cqltype.Timestamp, "timeuuid": cqltype.Timeuuid,
	"tinyint": cqltype.Tinyint, "uuid": cqltype.UUID, "varint": cqltype.Varint,
	"empty": cqltype.Empty,
}

// maxVectorDim bounds a vector's length. Cassandra's own bound is that a value
// must fit in memory; ours keeps one value under the largest value accepted.
const maxVectorDim = 8192

// ResolveType turns a written type into a Type, looking user types up in ks.
func (s *Snapshot) ResolveType(ks string, ref cql.TypeRef) (*cqltype.Type, error) {
	r := resolver{keyspace: ks}
	if k := s.Keyspaces[ks]; k != nil {
		r.types = k.Types
	}
	return r.resolve(ref, false)
}

// resolver turns written types into types among one keyspace's user types.
type resolver struct {
	keyspace string
	types    map[string]*cqltype.Type
}

// resolve resolves ref. frozen tells that ref lies inside frozen<…> or inside
// something that is always frozen, which freezes it too.
func (r resolver) resolve(ref cql.TypeRef, frozen bool) (*cqltype.Type, error) {
	if ref.ClassName != "" {
		return r.class(ref.ClassName)
	}
	if !ref.Quoted && ref.Name.Keyspace == "" {
		switch ref.Name.Name {
		case "frozen":
			return r.frozen(ref)
		case "list", "set", "map":
			return r.collection(ref, frozen)
		case "tuple":
			return r.tuple(ref)
		case "vector":
			return r.vector(ref)
		}
		if t := nativeTypes[ref.Name.Name]; t != nil && len(ref.Args) == 0 {
			return t, nil
		}
	}
	return r.user(ref, frozen)
}

func (r resolver) class(name string) (*cqltype.Type, error) {
	// Whether it is reversed does not matter: order is for CLUSTERING ORDER BY to say.
	t, _, err := cqltype.ParseClassName(name)
	if err != nil {
		return nil, syntax("Error setting type %s: %s", name, err)
	}
	return t, nil
}

func (r resolver) frozen(ref cql.TypeRef) (*cqltype.Type, error) {
	if len(ref.Args) != 1 {
		return nil, syntax("frozen<> takes exactly one type, got %s", refString(ref))
	}
	arg := ref.Args[0]
	if !canFreeze(arg) {
		return nil, syntax("frozen<> is only allowed on collections, tuples, and user-defined types (got %s)",
			refString(arg))
	}
	t, err := r.resolve(arg, true)
	if err != nil {
		return nil, err
	}
	return t.AsFrozen(), nil
}

func (r resolver) collection(ref cql.TypeRef, frozen bool) (*cqltype.Type, error) {
	want := 1
	if ref.Name.Name == "map" {
		want = 2
	}
	if len(ref.Args) != want {
		return nil, syntax("Invalid number of type arguments for %s", ref.Name.Name)
	}
	shown := refString(ref)
	if frozen {
		shown = "frozen<" + refString(freezeRef(ref)) + ">"
	}
	value := ref.Args[want-1]
	if isNative(value, "counter") || isNative(ref.Args[0], "counter") {
		return nil, invalid("Counters are not allowed inside collections: %s", shown)
	}
	if isNative(ref.Args[0], "duration") {
		switch ref.Name.Name {
		case "set":
			return nil, invalid("Durations are not allowed inside sets: %s", shown)
		case "map":
			return nil, invalid("Durations are not allowed as map keys: %s", shown)
		}
	}
	for _, arg := range ref.Args {
		switch {
		case frozen || !canFreeze(arg) || alwaysFrozen(arg):
		case isCollectionRef(arg):
			return nil, invalid("Non-frozen collections are not allowed inside collections: %s", shown)
		default:
			return nil, invalid("Non-frozen UDTs are not allowed inside collections: %s", shown)
		}
	}
	elems := make([]*cqltype.Type, want)
	for i, arg := range ref.Args {
		t, err := r.resolve(arg, frozen)
		if err != nil {
			return nil, err
		}
		elems[i] = t
	}
	var t *cqltype.Type
	switch ref.Name.Name {
	case "list":
		t = cqltype.ListOf(elems[0])
	case "set":
		t = cqltype.SetOf(elems[0])
	default:
		t = cqltype.MapOf(elems[0], elems[1])
	}
	if frozen {
		t = t.AsFrozen()
	}
	return t, nil
}

// tuple resolves a tuple, which is always frozen with all it holds.
func (r resolver) tuple(ref cql.TypeRef) (*cqltype.Type, error) {
	elems := make([]*cqltype.Type, len(ref.Args))
	for i, arg := range ref.Args {
		if isNative(arg, "counter") {
			return nil, invalid("Counters are not allowed inside tuples")
		}
		t, err := r.resolve(arg, true)
		if err != nil {
			return nil, err
		}
		elems[i] = t
	}
	return cqltype.TupleOf(elems...), nil
}

func (r resolver) vector(ref cql.TypeRef) (*cqltype.Type, error) {
	if len(ref.Args) != 1 {
		return nil, syntax("Invalid number of type arguments for vector")
	}
	if ref.Dim <= 0 {
		return nil, invalid("vectors may only have positive dimensions; given %d", ref.Dim)
	}
	if ref.Dim > maxVectorDim {
		return nil, invalid("vectors may only have up to %d dimensions; given %d", maxVectorDim, ref.Dim)
	}
	// A vector is one value whatever its elements are; Cassandra does not
	// freeze them, and so shows them as they were written.
	elem, err := r.resolve(ref.Args[0], false)
	if err != nil {
		return nil, err
	}
	return cqltype.VectorOf(elem, ref.Dim), nil
}

func (r resolver) user(ref cql.TypeRef, frozen bool) (*cqltype.Type, error) {
	if ref.Name.Keyspace != "" && ref.Name.Keyspace != r.keyspace {
		return nil, invalid("Statement on keyspace %s cannot refer to a user type in keyspace %s; "+
			"user types can only be used in the keyspace they are defined in", r.keyspace, ref.Name.Keyspace)
	}
	t := r.types[ref.Name.Name]
	if t == nil || len(ref.Args) > 0 {
		return nil, invalid("Unknown type %s.%s", r.keyspace, ref.Name.Name)
	}
	if frozen {
		t = t.AsFrozen()
	}
	return t, nil
}

func isNative(ref cql.TypeRef, name string) bool {
	return !ref.Quoted && ref.ClassName == "" && ref.Name.Keyspace == "" && len(ref.Args) == 0 && ref.Name.Name == name
}

// canFreeze reports that frozen<…> may be written around ref.
func canFreeze(ref cql.TypeRef) bool {
	if ref.ClassName != "" {
		return false
	}
	if ref.Quoted || ref.Name.Keyspace != "" {
		return true
	}
	return nativeTypes[ref.Name.Name] == nil
}

// alwaysFrozen reports what is frozen however it is written.
func alwaysFrozen(ref cql.TypeRef) bool {
	if ref.Quoted || ref.Name.Keyspace != "" {
		return false
	}
	switch ref.Name.Name {
	case "frozen", "tuple", "vector":
		return true
	}
	return false
}

func isCollectionRef(ref cql.TypeRef) bool {
	switch ref.Name.Name {
	case "list", "set", "map":
		return !ref.Quoted && ref.Name.Keyspace == ""
	}
	return false
}

// freezeRef writes frozen<…> around the arguments that freezing reaches, for messages.
func freezeRef(ref cql.TypeRef) cql.TypeRef {
	args := make([]cql.TypeRef, len(ref.Args))
	for i, a := range ref.Args {
		args[i] = a
		if canFreeze(a) && a.Name.Name != "frozen" {
			args[i] = cql.TypeRef{Name: cql.Name{Name: "frozen"}, Args: []cql.TypeRef{freezeRef(a)}}
		}
	}
	ref.Args = args
	return ref
}

// refString writes a type as it was written.
func refString(ref cql.TypeRef) string {
	var b strings.Builder
	writeRef(&b, ref)
	return b.String()
}

func writeRef(b *strings.Builder, ref cql.TypeRef) {
	switch {
	case ref.ClassName != "":
		b.WriteString(ref.ClassName)
		return
	case ref.Name.Keyspace != "":
		b.WriteString(ref.Name.Keyspace)
		b.WriteByte('.')
	}
	b.WriteString(ref.Name.Name)
	if len(ref.Args) == 0 {
		return
	}
	b.WriteByte('<')
	for i, a := range ref.Args {
		if i > 0 {
			b.WriteString(", ")
		}
		writeRef(b, a)
	}
	if ref.Name.Name == "vector" {
		b.WriteString(", " + strconv.Itoa(ref.Dim))
	}
	b.WriteByte('>')
}
