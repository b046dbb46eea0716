package cqltype

import (
	"strconv"
	"strings"
)

// FromJSON reads a JSON value (one complete JSON text) as t, as INSERT JSON
// and fromJson do; JSON null is nil. A text that is no JSON gives a *JSONError,
// a value that does not fit t gives Cassandra's MarshalException text.
func FromJSON(t *Type, json []byte) ([]byte, error) {
	n, err := parseJSON(string(json))
	if err != nil {
		return nil, err
	}
	return fromNode(t, n)
}

// JSONField is a member of a JSON object: a name as CQL means it, and the
// JSON text of its value.
type JSONField struct {
	Name  string
	Value []byte
}

// ErrJSONNull says that null was given where an object is needed.
var ErrJSONNull = marshalf("Got null for INSERT JSON values")

// JSONFields takes the object of an INSERT JSON apart, in the order written.
// A name within double quotes is taken as it is, others in lower case; of
// equal names one value remains, as in Cassandra. The values can be given to
// FromJSON. A text that is no JSON object gives a *JSONError, null ErrJSONNull.
func JSONFields(json string) ([]JSONField, error) {
	n, err := parseJSON(json)
	if err != nil {
		return nil, err
	}
	switch n.kind {
	case jsonNull:
		return nil, ErrJSONNull
	case jsonObject:
	default:
		return nil, &JSONError{"Cannot read a map from a " + n.javaClass()}
	}
	members := foldNames(n.fields)
	fields := make([]JSONField, len(members))
	for i, m := range members {
		fields[i] = JSONField{m.name, []byte(m.value.raw)}
	}
	return fields, nil
}

// foldNames applies CQL's case rules to the names of an object. A renamed
// member replaces one that had the new name, and moves to the end otherwise.
func foldNames(members []jsonMember) []jsonMember {
	folded := true
	for _, m := range members {
		folded = folded && foldName(m.name) == m.name
	}
	if folded {
		return members
	}
	values := make(map[string]jsonNode, len(members))
	order := make([]string, 0, 2*len(members))
	for _, m := range members {
		values[m.name] = m.value
		order = append(order, m.name)
	}
	for _, m := range members {
		name := foldName(m.name)
		if name == m.name {
			continue
		}
		v := values[m.name]
		delete(values, m.name)
		if _, ok := values[name]; !ok {
			order = append(order, name)
		}
		values[name] = v
	}
	out := make([]jsonMember, 0, len(values))
	for _, name := range order {
		if v, ok := values[name]; ok {
			out = append(out, jsonMember{name, v})
			delete(values, name)
		}
	}
	return out
}

func foldName(name string) string {
	if len(name) > 1 && name[0] == '"' && name[len(name)-1] == '"' {
		return name[1 : len(name)-1]
	}
	return strings.ToLower(name)
}

// javaClass is the simple name of the Java class that Cassandra's JSON library
// makes of a value; its messages show it.
func (n jsonNode) javaClass() string {
	switch n.kind {
	case jsonBoolean:
		return "Boolean"
	case jsonDouble:
		return "Double"
	case jsonString:
		return "String"
	case jsonArray:
		return "ArrayList"
	case jsonObject:
		return "LinkedHashMap"
	case jsonInteger:
		if _, err := strconv.ParseInt(n.text, 10, 32); err == nil {
			return "Integer"
		}
		if _, err := strconv.ParseInt(n.text, 10, 64); err == nil {
			return "Long"
		}
		return "BigInteger"
	}
	return "null"
}

// javaPackage is the package of javaClass, with a dot at its end.
func (n jsonNode) javaPackage() string {
	switch n.javaClass() {
	case "ArrayList", "LinkedHashMap":
		return "java.util."
	case "BigInteger":
		return "java.math."
	}
	return "java.lang."
}

// javaText is the value as Java's toString shows it.
func (n jsonNode) javaText() string {
	switch n.kind {
	case jsonArray:
		parts := make([]string, len(n.elems))
		for i, e := range n.elems {
			parts[i] = e.javaText()
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case jsonObject:
		parts := make([]string, len(n.fields))
		for i, f := range n.fields {
			parts[i] = f.name + "=" + f.value.javaText()
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return n.text
}

// wrong says which value was expected, as Cassandra does.
func (n jsonNode) wrong(expected string) error {
	return marshalf("Expected %s, but got a %s: %s", expected, n.javaClass(), n.javaText())
}

// stringKinds are the types that only JSON strings may give, by what
// Cassandra's message calls them.
var stringKinds = map[Kind]string{
	KindAscii: "an ascii string", KindText: "a UTF-8 string",
	KindDate: "a string representation of a date value", KindTime: "a string representation of a time value",
	KindUUID: "a string representation of a uuid", KindTimeuuid: "a string representation of a timeuuid",
	KindInet: "a string representation of an inet value", KindDuration: "a string representation of a duration",
}

func fromNode(t *Type, n jsonNode) ([]byte, error) {
	if n.kind == jsonNull {
		return nil, nil
	}
	if expected, ok := stringKinds[t.Kind]; ok {
		if n.kind != jsonString {
			return nil, n.wrong(expected)
		}
		return FromText(t, n.text)
	}
	switch t.Kind {
	case KindBlob, KindCustom:
		return blobFromNode(n)
	case KindBoolean:
		if n.kind != jsonString && n.kind != jsonBoolean {
			return nil, n.wrong("a boolean value")
		}
		return FromText(t, n.text)
	case KindTimestamp:
		if n.kind == jsonString || n.kind == jsonInteger && n.javaClass() == "Long" {
			return FromText(t, n.text)
		}
		return nil, n.wrong("a long or a datestring representation of a timestamp value")
	case KindEmpty:
		if n.kind != jsonString {
			return nil, marshalf("Expected an empty string, but got: %s", n.javaText())
		}
		return FromText(t, n.text)
	case KindCounter:
		return nil, marshalf("Counters cannot be given as JSON")
	case KindList, KindSet, KindMap, KindTuple, KindUDT, KindVector:
		return nestedFromNode(t, n)
	}
	return numberFromNode(t, n)
}

func blobFromNode(n jsonNode) ([]byte, error) {
	bad := func(reason string) error {
		return marshalf("Value '%s' is not a valid blob representation: %s", n.javaText(), reason)
	}
	if n.kind != jsonString {
		class := n.javaPackage() + n.javaClass()
		return nil, bad("class " + class + " cannot be cast to class java.lang.String (" + class +
			" and java.lang.String are in module java.base of loader 'bootstrap')")
	}
	digits, ok := strings.CutPrefix(n.text, "0x")
	if !ok {
		return nil, bad("String representation of blob is missing 0x prefix: " + n.text)
	}
	b, err := parseHex(digits)
	if err != nil {
		return nil, bad(err.Error())
	}
	return b, nil
}

func numberFromNode(t *Type, n jsonNode) ([]byte, error) {
	number := n.kind == jsonInteger || n.kind == jsonDouble
	switch t.Kind {
	case KindVarint, KindDecimal:
		// "" is the empty value of a decimal, and no varint.
		b, err := FromText(t, n.javaText())
		if err != nil || t.Kind == KindVarint && len(b) == 0 {
			return nil, marshalf("Value '%s' is not a valid representation of a %s value", n.javaText(), kindNames[t.Kind])
		}
		return b, nil
	case KindInt, KindBigint:
		class := n.javaClass()
		fits := class == "Integer" || class == "Long" && t.Kind == KindBigint
		if n.kind == jsonString || fits {
			return FromText(t, n.text)
		}
		if t.Kind == KindInt {
			return nil, n.wrong("an int value")
		}
		return nil, n.wrong("a bigint value")
	case KindSmallint, KindTinyint:
		if n.kind == jsonString || number {
			return FromText(t, n.text)
		}
		if t.Kind == KindSmallint {
			return nil, n.wrong("a short value")
		}
		return nil, n.wrong("a byte value")
	}
	if n.kind != jsonString && !number {
		return nil, n.wrong("a " + kindNames[t.Kind] + " value")
	}
	if number {
		// An integer or a double as Java narrows it, never the text again.
		v, _ := strconv.ParseFloat(strings.Replace(n.text, "Infinity", "Inf", 1), 64)
		if t.Kind == KindFloat {
			return EncodeFloat(float32(v)), nil
		}
		return EncodeDouble(v), nil
	}
	return FromText(t, n.text)
}

// nestedFromNode reads a collection, tuple, UDT or vector, which may also be
// given as a string that holds its JSON.
func nestedFromNode(t *Type, n jsonNode) ([]byte, error) {
	if n.kind == jsonString {
		inner, err := parseJSON(n.text)
		if err != nil {
			return nil, marshalf("Error decoding JSON string: %v", err)
		}
		n = inner
	}
	wantKind, expected := jsonArray, "a list"
	switch t.Kind {
	case KindSet:
		expected = "a list (representing a set)"
	case KindTuple:
		expected = "a list representation of a tuple"
	case KindMap, KindUDT:
		wantKind, expected = jsonObject, "a map"
	}
	if n.kind != wantKind {
		return nil, n.wrong(expected)
	}
	switch t.Kind {
	case KindMap:
		return mapFromNode(t, n)
	case KindUDT:
		return udtFromNode(t, n)
	case KindTuple:
		return tupleFromNode(t, n)
	case KindVector:
		if len(n.elems) != t.Dim {
			return nil, marshalf("List had incorrect size: expected %d but given %d; %s", t.Dim, len(n.elems), n.javaText())
		}
	}
	return elementsFromNode(t, n)
}

func elementsFromNode(t *Type, n jsonNode) ([]byte, error) {
	elems := make([][]byte, len(n.elems))
	for i, e := range n.elems {
		if e.kind == jsonNull {
			if t.Kind == KindSet {
				return nil, marshalf("Invalid null element in set")
			}
			return nil, marshalf("Invalid null element in list")
		}
		b, err := fromNode(t.Elems[0], e)
		if err != nil {
			return nil, err
		}
		if t.Kind == KindVector && isNull(t.Elems[0], b) {
			return nil, errNullInVector
		}
		elems[i] = b
	}
	switch t.Kind {
	case KindVector:
		b := AppendVector(nil, t, elems)
		return b, Validate(t, b)
	case KindSet:
		elems, _ = SortElements(t, elems)
	}
	return AppendCollection(nil, t, elems), nil
}

func mapFromNode(t *Type, n jsonNode) ([]byte, error) {
	elems := make([][]byte, 0, 2*len(n.fields))
	for _, f := range n.fields {
		if f.value.kind == jsonNull {
			return nil, marshalf("Invalid null value in map")
		}
		key, err := fromNode(t.Elems[0], jsonNode{kind: jsonString, text: f.name})
		if err != nil {
			return nil, err
		}
		value, err := fromNode(t.Elems[1], f.value)
		if err != nil {
			return nil, err
		}
		if key == nil {
			return nil, marshalf("Invalid null key in map")
		}
		elems = append(elems, key, value)
	}
	elems, _ = SortElements(t, elems)
	return AppendCollection(nil, t, elems), nil
}

func tupleFromNode(t *Type, n jsonNode) ([]byte, error) {
	if len(n.elems) > len(t.Elems) {
		return nil, marshalf("Tuple contains extra items (expected %d): %s", len(t.Elems), n.javaText())
	}
	if len(n.elems) < len(t.Elems) {
		return nil, marshalf("Tuple is missing items (expected %d): %s", len(t.Elems), n.javaText())
	}
	elems := make([][]byte, len(t.Elems))
	for i, e := range n.elems {
		b, err := fromNode(t.Elems[i], e)
		if err != nil {
			return nil, err
		}
		elems[i] = b
	}
	return AppendTuple(nil, elems), nil
}

func udtFromNode(t *Type, n jsonNode) ([]byte, error) {
	values := make(map[string]jsonNode, len(n.fields))
	members := foldNames(n.fields)
	for _, m := range members {
		values[m.name] = m.value
	}
	elems := make([][]byte, len(t.Elems))
	for i, name := range t.FieldNames {
		v, ok := values[name]
		delete(values, name)
		if !ok {
			continue
		}
		b, err := fromNode(t.Elems[i], v)
		if err != nil {
			return nil, err
		}
		elems[i] = b
	}
	for _, m := range members {
		if _, unknown := values[m.name]; unknown {
			return nil, marshalf("Unknown field '%s' in value of user defined type %s", m.name, t.Name)
		}
	}
	return AppendTuple(nil, elems), nil
}
