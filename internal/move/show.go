package move

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Object ids of PostgreSQL's types whose values people can be shown; they are
// the same in every database (pg_type.dat).
const (
	oidBool        = 16
	oidBytea       = 17
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidText        = 25
	oidFloat4      = 700
	oidFloat8      = 701
	oidBpchar      = 1042
	oidVarchar     = 1043
	oidDate        = 1082
	oidTimestamp   = 1114
	oidTimestamptz = 1184
	oidUUID        = 2950
	oidJSON        = 114
)

// pgEpoch is the zero of PostgreSQL's dates and times.
var pgEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// ShowValue writes a value for people, shortened.
func ShowValue(t *Type, v []byte) string {
	const most = 80
	if v == nil {
		return "NULL"
	}
	switch {
	case t.OID == oidBool && len(v) == 1:
		return strconv.FormatBool(v[0] != 0)
	case t.OID == oidInt2 && len(v) == 2, t.OID == oidInt4 && len(v) == 4, t.OID == oidInt8 && len(v) == 8:
		return strconv.FormatInt(intOf(v), 10)
	case t.OID == oidFloat4 && len(v) == 4:
		return strconv.FormatFloat(float64(math.Float32frombits(binary.BigEndian.Uint32(v))), 'g', -1, 32)
	case t.OID == oidFloat8 && len(v) == 8:
		return strconv.FormatFloat(math.Float64frombits(binary.BigEndian.Uint64(v)), 'g', -1, 64)
	case t.OID == oidUUID && len(v) == 16:
		return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:])
	case t.OID == oidDate && len(v) == 4:
		return pgEpoch.AddDate(0, 0, int(intOf(v))).Format(time.DateOnly)
	case (t.OID == oidTimestamp || t.OID == oidTimestamptz) && len(v) == 8:
		us := intOf(v)
		return time.Unix(pgEpoch.Unix()+us/1e6, us%1e6*1000).UTC().Format("2006-01-02T15:04:05.999999Z")
	case (t.OID == oidText || t.OID == oidVarchar || t.OID == oidBpchar || t.OID == oidJSON) && utf8.Valid(v):
		text := string(v)
		if len(text) > most {
			text = strings.ToValidUTF8(text[:most], "") + "…"
		}
		return strconv.Quote(text)
	}
	if len(v) > most/2 {
		return hex.EncodeToString(v[:most/2]) + "…"
	}
	return hex.EncodeToString(v)
}

// intOf reads a big-endian signed integer of 2, 4 or 8 bytes.
func intOf(v []byte) int64 {
	switch len(v) {
	case 2:
		return int64(int16(binary.BigEndian.Uint16(v)))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(v)))
	default:
		return int64(binary.BigEndian.Uint64(v))
	}
}

// ShowKey writes a key for people: name=value for each of its columns.
func (t *Table) ShowKey(key Row) string {
	parts := make([]string, 0, len(key))
	for i, v := range key {
		if i < len(t.Key) {
			c := &t.Columns[t.Key[i]]
			parts = append(parts, c.Name+"="+ShowValue(&c.Type, v))
		}
	}
	return strings.Join(parts, ", ")
}
