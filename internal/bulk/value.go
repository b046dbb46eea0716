package bulk

import (
	"encoding/json"
	"fmt"
	"strings"

	"varve/internal/cqltype"
)

// parseField turns a CSV field into a value; an empty one is null.
func parseField(t *cqltype.Type, field string) ([]byte, error) {
	switch {
	case field == "":
		return nil, nil
	case t.Kind == cqltype.KindText || t.Kind == cqltype.KindAscii:
		b := []byte(field)
		return b, cqltype.Validate(t, b)
	case structured(t):
		return cqltype.FromJSON(t, []byte(field))
	}
	text, err := json.Marshal(strings.TrimSpace(field))
	if err != nil {
		return nil, err
	}
	return cqltype.FromJSON(t, text)
}

// appendField writes a value as a CSV field.
func appendField(dst []byte, t *cqltype.Type, value []byte) ([]byte, error) {
	switch {
	case value == nil:
		return dst, nil
	case t.Kind == cqltype.KindText || t.Kind == cqltype.KindAscii:
		return append(dst, value...), nil
	}
	text := cqltype.AppendJSON(nil, t, value)
	if structured(t) || len(text) == 0 || text[0] != '"' {
		return append(dst, text...), nil
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("value of type %s: %w", t, err)
	}
	return append(dst, s...), nil
}

func structured(t *cqltype.Type) bool { return len(t.Elems) > 0 }
