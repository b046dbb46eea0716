package cqlfunc

import (
	"encoding/binary"
	"math"
	"math/big"

	"varve/internal/cqltype"
)

func putLong(buf *[8]byte, v int64) []byte {
	binary.BigEndian.PutUint64(buf[:], uint64(v))
	return buf[:]
}

func encodeVarint64(v int64) []byte { return cqltype.EncodeVarint(big.NewInt(v)) }

// addCollections registers the functions on lists, sets and maps.
func (r *registry) addCollections() {
	collection := func(name, params, wants string, accepts func(*cqltype.Type) bool, build func(name string, t *cqltype.Type) *signature) {
		r.factories[name] = &factory{params: params, min: 1, max: 1, resolve: func(name string, args []Arg, _ *cqltype.Type) (*signature, error) {
			t := args[0].natural()
			if t == nil {
				return nil, errCannotInfer(args[0], name, params)
			}
			if !accepts(t) {
				return nil, invalidf("Function %s requires a %s argument, but found argument %s of type %s", name, wants, args[0], t)
			}
			return build(name, t), nil
		}}
	}
	isMap := func(t *cqltype.Type) bool { return t.Kind == cqltype.KindMap }
	collection("map_keys", "map", "map", isMap, func(name string, t *cqltype.Type) *signature {
		return mapPart(name, t, cqltype.SetOf(t.Elems[0]).AsFrozen(), 0)
	})
	collection("map_values", "map", "map", isMap, func(name string, t *cqltype.Type) *signature {
		return mapPart(name, t, cqltype.ListOf(t.Elems[1]).AsFrozen(), 1)
	})
	collection("collection_count", "collection", "collection", (*cqltype.Type).IsCollection, collectionCount)

	isSequence := func(t *cqltype.Type) bool { return t.Kind == cqltype.KindList || t.Kind == cqltype.KindSet }
	const sequence = "numeric_set_or_list"
	collection("collection_min", sequence, "set or list", isSequence, func(name string, t *cqltype.Type) *signature {
		return collectionAggregate(name, t, extremeOf(t.Elems[0], false))
	})
	collection("collection_max", sequence, "set or list", isSequence, func(name string, t *cqltype.Type) *signature {
		return collectionAggregate(name, t, extremeOf(t.Elems[0], true))
	})
	isNumbers := func(t *cqltype.Type) bool { return isSequence(t) && isNumeric(t.Elems[0]) }
	collection("collection_sum", sequence, "numeric set/list", isNumbers, func(name string, t *cqltype.Type) *signature {
		return collectionAggregate(name, t, sumOf(t.Elems[0]))
	})
	collection("collection_avg", sequence, "numeric set/list", isNumbers, func(name string, t *cqltype.Type) *signature {
		return collectionAggregate(name, t, averageOf(t.Elems[0]))
	})
}

// mapPart takes the keys (0) or the values (1) of a map.
func mapPart(name string, t, ret *cqltype.Type, part int) *signature {
	return scalar(name, ret, func(_ *Context, args [][]byte) ([]byte, error) {
		if args[0] == nil {
			return nil, nil
		}
		elems, err := cqltype.SplitCollection(t, args[0])
		if err != nil {
			return nil, err
		}
		half := make([][]byte, 0, len(elems)/2)
		for i := part; i < len(elems); i += 2 {
			half = append(half, elems[i])
		}
		return cqltype.AppendCollection(nil, ret, half), nil
	}, t)
}

func collectionCount(name string, t *cqltype.Type) *signature {
	return scalar(name, cqltype.Int, func(_ *Context, args [][]byte) ([]byte, error) {
		if len(args[0]) == 0 {
			return nil, nil
		}
		return cqltype.EncodeInt(int32(cqltype.CollectionLen(args[0]))), nil
	}, t)
}

func collectionAggregate(name string, t *cqltype.Type, state func() State) *signature {
	return scalar(name, t.Elems[0], func(_ *Context, args [][]byte) ([]byte, error) {
		if args[0] == nil {
			return nil, nil
		}
		elems, err := cqltype.SplitCollection(t, args[0])
		if err != nil {
			return nil, err
		}
		s := state()
		for i := range elems {
			if err := s.Add(elems[i : i+1]); err != nil {
				return nil, err
			}
		}
		return s.Result()
	}, t)
}

// addVectors registers the similarities of vectors of floats.
func (r *registry) addVectors() {
	for name, f := range map[string]func(dot, xx, yy, dist float32) float32{
		"similarity_cosine": func(dot, xx, yy, _ float32) float32 {
			return (1 + float32(float64(dot)/math.Sqrt(float64(xx)*float64(yy)))) / 2
		},
		"similarity_euclidean":   func(_, _, _, dist float32) float32 { return 1 / (1 + dist) },
		"similarity_dot_product": func(dot, _, _, _ float32) float32 { return (1 + dot) / 2 },
	} {
		r.factories[name] = &factory{
			params: "vector<float, n>, vector<float, n>", min: 2, max: 2,
			resolve: func(name string, args []Arg, receiver *cqltype.Type) (*signature, error) {
				return resolveSimilarity(name, args, receiver, f)
			},
		}
	}
}

var errDimensions = invalidf("All arguments must have the same vector dimensions")

func resolveSimilarity(name string, args []Arg, receiver *cqltype.Type, f func(dot, xx, yy, dist float32) float32) (*signature, error) {
	types := [2]*cqltype.Type{vectorOf(args[0], receiver), vectorOf(args[1], receiver)}
	for i, t := range types {
		if t == nil {
			t = types[1-i]
		}
		if t == nil {
			return nil, errCannotInfer(args[i], name, "vector<float, n>, vector<float, n>")
		}
		if t.Kind != cqltype.KindVector || t.Elems[0].Kind != cqltype.KindFloat {
			return nil, invalidf("Function %s requires a float vector argument, but found argument %s of type %s", name, args[i], t)
		}
		types[i] = t
	}
	if types[0].Dim != types[1].Dim {
		return nil, errDimensions
	}
	t := types[0]
	return scalar(name, cqltype.Float, similarity(name, t, f), t, t), nil
}

// vectorOf is the vector type an argument has or may have, or nil.
func vectorOf(a Arg, receiver *cqltype.Type) *cqltype.Type {
	if len(a.Elements) > 0 {
		return cqltype.VectorOf(cqltype.Float, len(a.Elements))
	}
	if t := a.natural(); t != nil {
		return t
	}
	return receiver
}

func similarity(name string, t *cqltype.Type, f func(dot, xx, yy, dist float32) float32) eval {
	return func(_ *Context, args [][]byte) ([]byte, error) {
		if anyNull(args) {
			return nil, nil
		}
		x, y := args[0], args[1]
		if len(x) != 4*t.Dim || len(y) != 4*t.Dim {
			return nil, invalidf("Function %s got a vector of a wrong size", name)
		}
		var dot, xx, yy, dist float32
		for i := 0; i < len(x); i += 4 {
			a, b := cqltype.DecodeFloat(x[i:i+4]), cqltype.DecodeFloat(y[i:i+4])
			dot += a * b
			xx += a * a
			yy += b * b
			dist += (a - b) * (a - b)
		}
		if name == native+"similarity_cosine" && (xx == 0 || yy == 0) {
			return nil, invalidf("Function %s doesn't support all-zero vectors.", name)
		}
		return cqltype.EncodeFloat(f(dot, xx, yy, dist)), nil
	}
}
