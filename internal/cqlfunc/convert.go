package cqlfunc

import (
	"errors"
	"fmt"

	"varve/internal/cqltype"
)

// blobTypes are the types with conversions from and to blob, by the names used in the functions'.
var blobTypes = []struct {
	name string
	t    *cqltype.Type
}{
	{"ascii", cqltype.Ascii},
	{"bigint", cqltype.Bigint},
	{"boolean", cqltype.Boolean},
	{"counter", cqltype.Counter},
	{"date", cqltype.Date},
	{"decimal", cqltype.Decimal},
	{"double", cqltype.Double},
	{"duration", cqltype.Duration},
	{"empty", cqltype.Empty},
	{"float", cqltype.Float},
	{"inet", cqltype.Inet},
	{"int", cqltype.Int},
	{"smallint", cqltype.Smallint},
	{"text", cqltype.Text},
	{"time", cqltype.Time},
	{"timestamp", cqltype.Timestamp},
	{"timeuuid", cqltype.Timeuuid},
	{"tinyint", cqltype.Tinyint},
	{"uuid", cqltype.UUID},
	{"varchar", cqltype.Text},
	{"varint", cqltype.Varint},
}

// addBlob registers int_as_blob, blob_as_int and their like.
func (r *registry) addBlob() {
	same := func(_ *Context, args [][]byte) ([]byte, error) { return args[0], nil }
	for _, b := range blobTypes {
		r.addBoth(b.name+"_as_blob", b.name+"asblob", cqltype.Blob, same, b.t)
		r.add("blob_as_"+b.name, b.t, fromBlob("blob_as_"+b.name, b.name, b.t), cqltype.Blob)
		r.add("blobas"+b.name, b.t, fromBlob("blobas"+b.name, b.name, b.t), cqltype.Blob)
	}
}

func fromBlob(function, typeName string, t *cqltype.Type) eval {
	return func(_ *Context, args [][]byte) ([]byte, error) {
		if args[0] != nil && cqltype.Validate(t, args[0]) != nil {
			return nil, invalidf("In call to function %s%s, value 0x%x is not a valid binary representation for type %s",
				native, function, args[0], typeName)
		}
		return args[0], nil
	}
}

// addJSON registers to_json and from_json.
func (r *registry) addJSON() {
	for _, name := range []string{"to_json", "tojson"} {
		r.factories[name] = &factory{params: "any", min: 1, max: 1, resolve: resolveToJSON}
	}
	for _, name := range []string{"from_json", "fromjson"} {
		r.factories[name] = &factory{params: "text", min: 1, max: 1, resolve: resolveFromJSON}
	}
}

// errCannotInfer is an argument of any type whose type is not known.
func errCannotInfer(a Arg, name, params string) error {
	return invalidf("Cannot infer type of argument %s in call to function %s(%s): use type casts to disambiguate",
		a, name, params)
}

// scalar makes the signature of a function made by a factory.
func scalar(name string, ret *cqltype.Type, e eval, args ...*cqltype.Type) *signature {
	return &signature{name: name, args: args, ret: ret, fn: &Function{Name: name, Args: args, Return: ret, Pure: true, Eval: e}}
}

func resolveToJSON(name string, args []Arg, _ *cqltype.Type) (*signature, error) {
	t := args[0].natural()
	if t == nil {
		return nil, errCannotInfer(args[0], name, "any")
	}
	return scalar(name, cqltype.Text, func(_ *Context, args [][]byte) ([]byte, error) {
		if len(args[0]) == 0 && !hasEmpty(t) {
			return []byte("null"), nil
		}
		return cqltype.AppendJSON(nil, t, args[0]), nil
	}, t), nil
}

// hasEmpty reports that an empty value of t means something other than null.
func hasEmpty(t *cqltype.Type) bool {
	switch t.Kind {
	case cqltype.KindAscii, cqltype.KindText, cqltype.KindBlob, cqltype.KindCustom, cqltype.KindTuple, cqltype.KindUDT:
		return true
	}
	return false
}

func resolveFromJSON(name string, args []Arg, receiver *cqltype.Type) (*signature, error) {
	if t := args[0].natural(); t != nil && !assignable(t, cqltype.Text) {
		return nil, invalidf("Function %s requires an argument of type text, but found argument %s of type %s", name, args[0], t)
	}
	if receiver == nil {
		return nil, invalidf("%s() cannot be used in the selection clause of a SELECT statement", name[len(native):])
	}
	return scalar(name, receiver, func(_ *Context, args [][]byte) ([]byte, error) {
		if args[0] == nil {
			return nil, nil
		}
		v, err := cqltype.FromJSON(receiver, args[0])
		if err == nil {
			return v, nil
		}
		types := []*cqltype.Type{cqltype.Text}
		if bad := (*cqltype.JSONError)(nil); errors.As(err, &bad) {
			return nil, failure(name, types,
				fmt.Sprintf("execution of '%s[text]' failed: Could not decode JSON string '%s': %v", name, shorten(args[0]), err))
		}
		return nil, failure(name, types, "org.apache.cassandra.serializers.MarshalException: "+err.Error())
	}, cqltype.Text), nil
}

// shorten keeps a message of user data in bounds.
func shorten(b []byte) string {
	const limit = 1024
	if len(b) <= limit {
		return string(b)
	}
	return string(b[:limit]) + "..."
}
