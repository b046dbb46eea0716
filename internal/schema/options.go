package schema

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxTTL is the largest time to live, 20 years (Attributes.MAX_TTL).
const maxTTL = 20 * 365 * 24 * 60 * 60

// minBloomFilterFPChance is the least chance Cassandra's filters support.
const minBloomFilterFPChance = 6.71e-5

// tableProperties are the options of CREATE TABLE and ALTER TABLE.
var tableProperties = map[string]bool{
	"id": true, "additional_write_policy": true, "allow_auto_snapshot": true, "bloom_filter_fp_chance": true,
	"caching": true, "cdc": true, "comment": true, "compaction": true, "compression": true,
	"crc_check_chance": true, "default_time_to_live": true, "extensions": true, "gc_grace_seconds": true,
	"incremental_backups": true, "max_index_interval": true, "memtable": true,
	"memtable_flush_period_in_ms": true, "min_index_interval": true, "read_repair": true,
	"speculative_retry": true, "auto_repair": true,
}

// defaultOptions are those of a table made without WITH.
func defaultOptions() TableOptions {
	return TableOptions{
		AdditionalWritePolicy: "99p",
		AllowAutoSnapshot:     true,
		BloomFilterFPChance:   0.01,
		Caching:               map[string]string{"keys": "ALL", "rows_per_partition": "NONE"},
		Compaction: map[string]string{
			"class":         compactionPackage + "SizeTieredCompactionStrategy",
			"min_threshold": "4", "max_threshold": "32",
		},
		Compression: map[string]string{
			"class": compressionPackage + "LZ4Compressor", "chunk_length_in_kb": "16",
		},
		CRCCheckChance:     1,
		GCGraceSeconds:     864000,
		IncrementalBackups: true,
		MaxIndexInterval:   2048,
		Memtable:           "default",
		MinIndexInterval:   128,
		ReadRepair:         "BLOCKING",
		SpeculativeRetry:   "99p",
	}
}

// set applies properties and validates the outcome.
func (o *TableOptions) set(ps properties) error {
	if ps.has("auto_repair") {
		return misconfigured("auto_repair option is not supported unless auto-repair is enabled " +
			"with -Dcassandra.autorepair.enable=true")
	}
	for _, f := range []func(properties) error{o.setScalars, o.setMaps, o.setPolicies} {
		if err := f(ps); err != nil {
			return err
		}
	}
	return o.check()
}

// setNew is set for a new table, where leveled compaction changes a default.
func (o *TableOptions) setNew(ps properties) error {
	if err := o.set(ps); err != nil {
		return err
	}
	if !ps.has("bloom_filter_fp_chance") && o.Compaction["class"] == compactionPackage+"LeveledCompactionStrategy" {
		o.BloomFilterFPChance = 0.1
	}
	return nil
}

func (o *TableOptions) setScalars(ps properties) error {
	for name, p := range map[string]*bool{
		"allow_auto_snapshot": &o.AllowAutoSnapshot, "cdc": &o.CDC, "incremental_backups": &o.IncrementalBackups,
	} {
		if err := assign(ps, name, p, ps.boolean); err != nil {
			return err
		}
	}
	for name, p := range map[string]*float64{
		"bloom_filter_fp_chance": &o.BloomFilterFPChance, "crc_check_chance": &o.CRCCheckChance,
	} {
		if err := assign(ps, name, p, ps.double); err != nil {
			return err
		}
	}
	for name, p := range map[string]*int32{
		"default_time_to_live": &o.DefaultTTL, "gc_grace_seconds": &o.GCGraceSeconds,
		"max_index_interval": &o.MaxIndexInterval, "min_index_interval": &o.MinIndexInterval,
		"memtable_flush_period_in_ms": &o.MemtableFlushPeriodInMS,
	} {
		if err := assign(ps, name, p, ps.integer); err != nil {
			return err
		}
	}
	return assign(ps, "comment", &o.Comment, ps.text)
}

func assign[T any](ps properties, name string, to *T, get func(string) (T, error)) error {
	if !ps.has(name) {
		return nil
	}
	v, err := get(name)
	if err == nil {
		*to = v
	}
	return err
}

func (o *TableOptions) setMaps(ps properties) error {
	for _, f := range []struct {
		name string
		to   *map[string]string
		norm func(map[string]string) (map[string]string, error)
	}{
		{"caching", &o.Caching, normalizeCaching},
		{"compaction", &o.Compaction, normalizeCompaction},
		{"compression", &o.Compression, normalizeCompression},
	} {
		if !ps.has(f.name) {
			continue
		}
		m, err := ps.mapping(f.name)
		if err != nil {
			return err
		}
		if *f.to, err = f.norm(m); err != nil {
			return err
		}
	}
	// extensions are accepted and ignored, as in Cassandra: they are set
	// through its internal interface alone.
	return nil
}

func (o *TableOptions) setPolicies(ps properties) error {
	for name, p := range map[string]*string{
		"speculative_retry": &o.SpeculativeRetry, "additional_write_policy": &o.AdditionalWritePolicy,
	} {
		if !ps.has(name) {
			continue
		}
		s, err := ps.text(name)
		if err != nil {
			return err
		}
		if *p, err = normalizeRetry(s); err != nil {
			return err
		}
	}
	if ps.has("read_repair") {
		s, err := ps.text("read_repair")
		if err != nil {
			return err
		}
		s = strings.ToUpper(s)
		if s != "NONE" && s != "BLOCKING" {
			return misconfigured("Invalid value %s for option 'read_repair': only 'NONE' and 'BLOCKING' are allowed", s)
		}
		o.ReadRepair = s
	}
	if ps.has("memtable") {
		s, err := ps.text("memtable")
		if err != nil {
			return err
		}
		if s != "default" {
			return misconfigured("Memtable configuration \"%s\" not found.", s)
		}
		o.Memtable = s
	}
	return nil
}

func (o *TableOptions) check() error {
	if o.BloomFilterFPChance <= minBloomFilterFPChance || o.BloomFilterFPChance > 1 || math.IsNaN(o.BloomFilterFPChance) {
		return misconfigured("bloom_filter_fp_chance must be larger than %s and less than or equal to 1.0 (got %s)",
			formatDouble(minBloomFilterFPChance), formatDouble(o.BloomFilterFPChance))
	}
	if !(o.CRCCheckChance >= 0 && o.CRCCheckChance <= 1) {
		return misconfigured("crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got %s)",
			formatDouble(o.CRCCheckChance))
	}
	if o.DefaultTTL < 0 {
		return misconfigured("default_time_to_live must be greater than or equal to 0 (got %d)", o.DefaultTTL)
	}
	if o.DefaultTTL > maxTTL {
		return misconfigured("default_time_to_live must be less than or equal to %d (got %d)", maxTTL, o.DefaultTTL)
	}
	if o.GCGraceSeconds < 0 {
		return misconfigured("gc_grace_seconds must be greater than or equal to 0 (got %d)", o.GCGraceSeconds)
	}
	if o.MinIndexInterval < 1 {
		return misconfigured("min_index_interval must be greater than or equal to 1 (got %d)", o.MinIndexInterval)
	}
	if o.MaxIndexInterval < o.MinIndexInterval {
		return misconfigured("max_index_interval must be greater than or equal to min_index_interval (%d) (got %d)",
			o.MinIndexInterval, o.MaxIndexInterval)
	}
	if o.MemtableFlushPeriodInMS < 0 {
		return misconfigured("memtable_flush_period_in_ms must be greater than or equal to 0 (got %d)",
			o.MemtableFlushPeriodInMS)
	}
	return nil
}

func normalizeCaching(m map[string]string) (map[string]string, error) {
	out := map[string]string{"keys": "NONE", "rows_per_partition": "NONE"}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if out[key] == "" {
			return nil, misconfigured("Invalid caching sub-options [%s]: only 'keys' and 'rows_per_partition' are allowed",
				strings.Join(unknownKeys(m, out), ", "))
		}
	}
	if v, ok := m["keys"]; ok {
		if !strings.EqualFold(v, "ALL") && !strings.EqualFold(v, "NONE") {
			return nil, misconfigured("Invalid value '%s' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed", v)
		}
		out["keys"] = strings.ToUpper(v)
	}
	if v, ok := m["rows_per_partition"]; ok {
		n, err := strconv.ParseInt(v, 10, 32)
		switch {
		case strings.EqualFold(v, "ALL"), strings.EqualFold(v, "NONE"):
			out["rows_per_partition"] = strings.ToUpper(v)
		case err == nil && isDigits(v):
			out["rows_per_partition"] = strconv.FormatInt(n, 10)
			if n == 0 {
				out["rows_per_partition"] = "NONE"
			}
		default:
			return nil, misconfigured("Invalid value '%s' for caching sub-option 'rows_per_partition': "+
				"only 'ALL', 'NONE', and integer values are allowed", v)
		}
	}
	return out, nil
}

func unknownKeys[V any](m map[string]string, known map[string]V) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if _, ok := known[key]; !ok {
			keys = append(keys, key)
		}
	}
	return keys
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

var (
	percentileRetry = regexp.MustCompile(`^([0-9.]+)p(ercentile)?$`)
	fixedRetry      = regexp.MustCompile(`^([0-9.]+)ms$`)
	hybridRetry     = regexp.MustCompile(`^(min|max)\(([0-9.]+[a-z]+)\s*,\s*([0-9.]+[a-z]+)\)$`)
)

// normalizeRetry checks speculative_retry and additional_write_policy.
func normalizeRetry(s string) (string, error) {
	low := strings.ToLower(s)
	switch low {
	case "always", "never":
		return strings.ToUpper(s), nil
	case "none":
		return "NEVER", nil
	}
	if m := hybridRetry.FindStringSubmatch(low); m != nil {
		a, err := simpleRetry(m[2], s)
		if err != nil {
			return "", err
		}
		b, err := simpleRetry(m[3], s)
		if err != nil {
			return "", err
		}
		if strings.HasSuffix(a, "p") == strings.HasSuffix(b, "p") {
			kind := "FIXED"
			if strings.HasSuffix(a, "p") {
				kind = "PERCENTILE"
			}
			return "", misconfigured("Invalid value %s for option 'speculative_retry': MIN()/MAX() arguments "+
				"should be of different types, but both are of type %s", s, kind)
		}
		if strings.HasSuffix(b, "p") {
			a, b = b, a
		}
		return strings.ToUpper(m[1]) + "(" + a + "," + b + ")", nil
	}
	return simpleRetry(low, s)
}

func simpleRetry(s, whole string) (string, error) {
	if m := percentileRetry.FindStringSubmatch(s); m != nil {
		f, ok := parseDouble(m[1])
		if !ok {
			return "", misconfigured("Invalid value %s for option 'speculative_retry'", whole)
		}
		if f <= 0 || f >= 100 {
			return "", misconfigured("Invalid value %s for PERCENTILE option 'speculative_retry': "+
				"must be between (0.0 and 100.0)", whole)
		}
		return strconv.FormatFloat(math.Round(f*1e4)/1e4, 'f', -1, 64) + "p", nil
	}
	if m := fixedRetry.FindStringSubmatch(s); m != nil {
		if f, ok := parseDouble(m[1]); ok && f <= math.MaxInt32 {
			return strconv.Itoa(int(f)) + "ms", nil
		}
	}
	return "", misconfigured("Invalid value %s for option 'speculative_retry'", whole)
}

// formatDouble writes a float as Java's Double.toString does.
func formatDouble(f float64) string {
	switch a := math.Abs(f); {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case a != 0 && (a < 1e-3 || a >= 1e7):
		s := strconv.FormatFloat(f, 'E', -1, 64)
		mantissa, exp, _ := strings.Cut(s, "E")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		n, _ := strconv.Atoi(exp)
		return mantissa + "E" + strconv.Itoa(n)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
