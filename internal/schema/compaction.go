package schema

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const compactionPackage = "org.apache.cassandra.db.compaction."

// optionCheck checks one compaction option's value.
type optionCheck func(name, value string) error

// commonCompaction are the options of AbstractCompactionStrategy.
var commonCompaction = map[string]optionCheck{
	"tombstone_threshold":            positiveFloat,
	"tombstone_compaction_interval":  positiveInt,
	"unchecked_tombstone_compaction": quotedBool,
	"only_purge_repaired_tombstones": anyText,
	"log_all": func(name, v string) error {
		return oneOfBool(v, "'%s' should either be 'true' or 'false', not %s", name, v)
	},
	"enabled": func(_, v string) error {
		return oneOfBool(v, "enabled should either be 'true' or 'false', not %s", v)
	},
	"provide_overlapping_tombstones": func(_, v string) error {
		if v = strings.ToUpper(v); v != "NONE" && v != "ROW" && v != "CELL" {
			return misconfigured("Invalid value %s for 'provide_overlapping_tombstones' compaction sub-option - "+
				"must be one of the following [NONE, ROW, CELL].", v)
		}
		return nil
	},
}

var sizeTieredOptions = map[string]optionCheck{
	"min_sstable_size": nonNegativeInt, "bucket_low": anyFloat, "bucket_high": anyFloat,
	"min_threshold": anyText, "max_threshold": anyText,
}

// compactionStrategies are Cassandra's, with each one's own options. Varve
// does not compact by them; it keeps them for clients and tools that read them.
var compactionStrategies = map[string]map[string]optionCheck{
	"SizeTieredCompactionStrategy": sizeTieredOptions,
	"LeveledCompactionStrategy": merged(sizeTieredOptions, map[string]optionCheck{
		"sstable_size_in_mb": positiveSize, "fanout_size": positiveSize, "single_sstable_uplevel": anyText,
	}),
	"TimeWindowCompactionStrategy": merged(sizeTieredOptions, map[string]optionCheck{
		"timestamp_resolution":                    timeUnit,
		"compaction_window_unit":                  windowUnit,
		"compaction_window_size":                  windowSize,
		"expired_sstable_check_frequency_seconds": notNegative,
		"unsafe_aggressive_sstable_expiration": func(name, v string) error {
			if strings.EqualFold(v, "true") {
				return misconfigured("%s is requested but not allowed, restart cassandra with "+
					"-Dcassandra.allow_unsafe_aggressive_sstable_expiration=true to allow it", name)
			}
			return oneOfBool(v, "%s is not 'true' or 'false' (%s)", name, v)
		},
	}),
	"UnifiedCompactionStrategy": {
		"scaling_parameters": scalingParameters, "target_sstable_size": largeSize, "min_sstable_size": minSize,
		"base_shard_count": positiveCount, "sstable_growth": unitInterval, "flush_size_override": largeSize,
		"max_sstables_to_compact": anyInt, "expired_sstable_check_frequency_seconds": notNegative,
		"unsafe_aggressive_sstable_expiration": func(name, v string) error {
			return oneOfBool(v, "%s should either be 'true' or 'false', not %s", name, v)
		},
		"overlap_inclusion_method": overlapMethod,
	},
}

func merged(a, b map[string]optionCheck) map[string]optionCheck {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

// normalizeCompaction checks compaction options and returns them as
// system_schema.tables shows them.
func normalizeCompaction(m map[string]string) (map[string]string, error) {
	class, ok := m["class"]
	if !ok {
		return nil, misconfigured("Missing sub-option 'class' for the 'compaction' option")
	}
	delete(m, "class")
	if !strings.Contains(class, ".") {
		class = compactionPackage + class
	}
	strategy := strings.TrimPrefix(class, compactionPackage)
	own, known := compactionStrategies[strategy]
	if !known {
		if strings.HasPrefix(class, "java.") {
			return nil, misconfigured("Invalid compaction strategy class '%s': must extend or implement "+
				compactionPackage+"AbstractCompactionStrategy", class)
		}
		return nil, misconfigured("Unable to find compaction strategy class '%s'", class)
	}
	all := merged(commonCompaction, own)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if check := all[key]; check != nil {
			if err := check(key, m[key]); err != nil {
				return nil, err
			}
		}
	}
	if unknown := unknownKeys(m, all); len(unknown) > 0 {
		return nil, misconfigured("Properties specified [%s] are not understood by %s", strings.Join(unknown, ", "), strategy)
	}
	if err := checkBuckets(m); err != nil {
		return nil, err
	}
	if strategy == "UnifiedCompactionStrategy" {
		if err := checkSizes(m); err != nil {
			return nil, err
		}
	}
	out := maps.Clone(m)
	out["class"] = class
	if own["min_threshold"] != nil {
		if err := defaultThresholds(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func checkBuckets(m map[string]string) error {
	low, high := 0.5, 1.5
	if v, ok := m["bucket_low"]; ok {
		low, _ = parseDouble(v)
	}
	if v, ok := m["bucket_high"]; ok {
		high, _ = parseDouble(v)
	}
	if high <= low {
		return misconfigured("bucket_high value (%s) is less than or equal to the bucket_low value (%s)",
			formatDouble(high), formatDouble(low))
	}
	return nil
}

func defaultThresholds(m map[string]string) error {
	bounds := map[string]int{"min_threshold": 4, "max_threshold": 32}
	for _, key := range []string{"min_threshold", "max_threshold"} {
		v, ok := m[key]
		if !ok {
			m[key] = strconv.Itoa(bounds[key])
			continue
		}
		n, err := strconv.ParseInt(v, 10, 32)
		if !isDigits(v) || err != nil {
			return misconfigured("Invalid value %s for '%s' compaction sub-option - must be an integer", v, key)
		}
		bounds[key] = int(n)
	}
	low, high := bounds["min_threshold"], bounds["max_threshold"]
	switch {
	case low <= 0 || high <= 0:
		return misconfigured("Disabling compaction by setting compaction thresholds to 0 has been removed, " +
			"set the compaction option 'enabled' to false instead.")
	case low < 2:
		return misconfigured("Min compaction threshold cannot be less than 2 (got %d)", low)
	case low > high:
		return misconfigured("Min compaction threshold (got %d) cannot be greater than max compaction threshold (got %d)", low, high)
	}
	return nil
}

func anyText(string, string) error { return nil }

func oneOfBool(v, format string, args ...any) error {
	if strings.EqualFold(v, "true") || strings.EqualFold(v, "false") {
		return nil
	}
	return misconfigured(format, args...)
}

func quotedBool(name, v string) error {
	return oneOfBool(v, "'%s' should be either 'true' or 'false', not '%s'", name, v)
}

func anyFloat(name, v string) error {
	if _, ok := parseDouble(v); !ok {
		return misconfigured("%s is not a parsable float for %s", v, name)
	}
	return nil
}

func positiveFloat(name, v string) error {
	f, ok := parseDouble(v)
	if !ok {
		return misconfigured("%s is not a parsable int (base10) for %s", v, name)
	}
	if f <= 0 {
		return misconfigured("%s must be greater than 0, but was %.6f", name, f)
	}
	return nil
}

func parseLong(name, v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, misconfigured("%s is not a parsable int (base10) for %s", v, name)
	}
	return n, nil
}

func positiveInt(name, v string) error {
	n, err := parseLong(name, v)
	if err == nil && n <= 0 {
		err = misconfigured("%s must be greater than 0, but was %d", name, n)
	}
	return err
}

func positiveSize(name, v string) error {
	n, err := parseLong(name, v)
	if err == nil && n < 1 {
		err = misconfigured("%s must be larger than 0, but was %s", name, v)
	}
	return err
}

func positiveCount(name, v string) error {
	n, err := parseLong(name, v)
	if err == nil && n <= 0 {
		err = misconfigured("Invalid configuration, %s should be positive: %d", name, n)
	}
	return err
}

func nonNegativeInt(name, v string) error {
	n, err := parseLong(name, v)
	if err == nil && n < 0 {
		err = misconfigured("%s must be non negative: %d", name, n)
	}
	return err
}

func notNegative(name, v string) error {
	n, err := parseLong(name, v)
	if err == nil && n < 0 {
		err = misconfigured("%s must not be negative, but was %d", name, n)
	}
	return err
}

func windowSize(name, v string) error {
	n, err := parseLong(name, v)
	if err == nil && n < 1 {
		err = misconfigured("%d must be greater than 1 for %s", n, name)
	}
	return err
}

// timeUnits are those of java.util.concurrent.TimeUnit.
var timeUnits = []string{"NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"}

func timeUnit(name, v string) error {
	if !slices.Contains(timeUnits, v) {
		return misconfigured("%s is not valid for %s", v, name)
	}
	return nil
}

func windowUnit(name, v string) error {
	if !slices.Contains(timeUnits[4:], v) {
		return misconfigured("%s is not valid for %s", v, name)
	}
	return nil
}

func unitInterval(name, v string) error {
	f, ok := parseDouble(v)
	if !ok {
		return misconfigured("%s is not a valid number between 0 and 1: For input string: \"%s\"", name, v)
	}
	if f < 0 || f > 1 {
		return misconfigured("%s %s must be between 0 and 1", name, v)
	}
	return nil
}

func overlapMethod(_, v string) error {
	switch strings.ToUpper(v) {
	case "NONE", "SINGLE", "TRANSITIVE":
		return nil
	}
	return misconfigured("Invalid overlap inclusion method %s. The valid options are [NONE, SINGLE, TRANSITIVE].", v)
}

func anyInt(name, v string) error {
	_, err := parseLong(name, v)
	return err
}

// binaryUnits are those of sizes, each 1024 times the one before.
var binaryUnits = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// parseSize reads a size such as 100MiB, with Cassandra's reason when it cannot.
func parseSize(v string) (int64, string) {
	s := strings.TrimSpace(v)
	if !strings.HasSuffix(s, "B") {
		return 0, v + " does not end in unit B"
	}
	number := strings.TrimRight(s, "BKMGTPEi ")
	unit := strings.TrimSpace(s[len(number):])
	f, ok := parseDouble(number)
	at := slices.Index(binaryUnits, unit)
	if !ok || at < 0 {
		return 0, "For input string: \"" + number + "\""
	}
	return int64(math.Ldexp(f, 10*at)), ""
}

// showSize writes a size as Cassandra's FBUtilities.prettyPrintMemory does.
func showSize(n int64) string {
	at := 0
	f := float64(n)
	for f >= 1024 && at < len(binaryUnits)-1 {
		f /= 1024
		at++
	}
	if at == 0 {
		return strconv.FormatInt(n, 10) + "B"
	}
	return strconv.FormatFloat(f, 'f', 3, 64) + binaryUnits[at]
}

const (
	leastSize         = 1 << 20
	defaultTargetSize = 1 << 30
	defaultMinSize    = 100 << 20
)

func largeSize(name, v string) error {
	n, reason := parseSize(v)
	if reason != "" {
		return misconfigured("%s %s is not a valid size in bytes: %s", name, v, reason)
	}
	if n < leastSize {
		return misconfigured("%s %s is not acceptable, size must be at least %s", name, v, showSize(leastSize))
	}
	return nil
}

func minSize(name, v string) error {
	if n, reason := parseSize(v); reason != "" || n < 0 {
		return misconfigured("%s is not a valid size in bytes for %s", v, name)
	}
	return nil
}

// checkSizes compares UCS's two sizes.
func checkSizes(m map[string]string) error {
	target, least := int64(defaultTargetSize), int64(defaultMinSize)
	if v, ok := m["target_sstable_size"]; ok {
		target, _ = parseSize(v)
	}
	if v, ok := m["min_sstable_size"]; ok {
		least, _ = parseSize(v)
	}
	// The target's own lower bound is its 0.7-fold, half a doubling.
	if float64(least) > float64(target)*math.Sqrt(0.5) {
		return misconfigured("Invalid configuration, min_sstable_size (%s) should be less than 70%% of the targetSSTableSize (%s)",
			showSize(least), showSize(target))
	}
	return nil
}

var scalingParameter = regexp.MustCompile(`^(N|L[0-9]+|T[0-9]+|[+-]?[0-9]+)$`)

// scalingParameters checks UCS's list of T4, L8, N or plain integers.
func scalingParameters(_, v string) error {
	for _, p := range strings.Split(v, ",") {
		p = strings.TrimSpace(p)
		if !scalingParameter.MatchString(p) {
			return misconfigured("Scaling parameter %s must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+", p)
		}
		if p[0] == 'L' || p[0] == 'T' {
			if n, err := strconv.ParseInt(p[1:], 10, 32); err != nil || n < 2 {
				return misconfigured("Fan factor cannot be lower than 2 in %s", p)
			}
		}
	}
	return nil
}
