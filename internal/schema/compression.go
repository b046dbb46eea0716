package schema

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

const compressionPackage = "org.apache.cassandra.io.compress."

// compressors are Cassandra's, with the options each has beside the common ones.
var compressors = map[string][]string{
	"LZ4Compressor":     {"lz4_compressor_type", "lz4_high_compressor_level"},
	"SnappyCompressor":  nil,
	"DeflateCompressor": nil,
	"ZstdCompressor":    {"compression_level"},
	"NoopCompressor":    nil,
}

// normalizeCompression checks compression options and returns them as
// system_schema.tables shows them.
func normalizeCompression(m map[string]string) (map[string]string, error) {
	if v, ok := m["enabled"]; ok && !strings.EqualFold(v, "true") {
		if len(m) > 1 {
			return nil, misconfigured("If the 'enabled' option is set to false no other options must be specified")
		}
		return map[string]string{"enabled": "false"}, nil
	}
	if len(m) == 0 {
		return map[string]string{"enabled": "false"}, nil
	}
	delete(m, "enabled")
	class, ok := m["class"]
	if !ok {
		return nil, misconfigured("Missing sub-option 'class' for the 'compression' option.")
	}
	if class == "" {
		return nil, misconfigured("The 'class' option must not be empty. To disable compression use 'enabled' : false")
	}
	delete(m, "class")
	if !strings.Contains(class, ".") {
		class = compressionPackage + class
	}
	extra, known := compressors[strings.TrimPrefix(class, compressionPackage)]
	if !known {
		return nil, misconfigured("Could not create Compression for type %s", class)
	}
	out := map[string]string{"class": class, "chunk_length_in_kb": "16"}
	if v, ok := m["chunk_length_in_kb"]; ok {
		n, err := strconv.ParseInt(v, 10, 32)
		switch {
		case err != nil:
			return nil, misconfigured("Invalid value for chunk_length_in_kb")
		case n > math.MaxInt32/1024:
			return nil, misconfigured("Value of chunk_length_in_kb is too large (%d)", n)
		case n <= 0:
			return nil, misconfigured("Invalid negative or null chunk_length_in_kb")
		case n&(n-1) != 0:
			return nil, misconfigured("chunk_length_in_kb must be a power of 2")
		}
		out["chunk_length_in_kb"] = strconv.FormatInt(n, 10)
		delete(m, "chunk_length_in_kb")
	}
	if v, ok := m["min_compress_ratio"]; ok {
		f, fok := parseDouble(v)
		switch {
		case !fok:
			return nil, misconfigured("Invalid value for min_compress_ratio")
		case f < 0:
			return nil, misconfigured("Invalid negative min_compress_ratio")
		case f > 0 && f < 1:
			return nil, misconfigured("min_compress_ratio can either be 0 or greater than or equal to 1")
		case f > 0:
			out["min_compress_ratio"] = formatDouble(f)
		}
		delete(m, "min_compress_ratio")
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(extra, key) {
			return nil, misconfigured("Unknown compression options %s", key)
		}
		if err := checkCompressorOption(key, m[key]); err != nil {
			return nil, err
		}
		out[key] = m[key]
	}
	return out, nil
}

// checkCompressorOption checks the options that compressors have of their own.
func checkCompressorOption(name, value string) error {
	n, err := strconv.Atoi(value)
	switch name {
	case "compression_level":
		if err != nil || n < -131072 || n > 22 {
			return misconfigured("ZstdCompressor.create() threw an error: java.lang.IllegalArgumentException %s=%s is invalid",
				name, value)
		}
	case "lz4_high_compressor_level":
		if err != nil || n < 1 || n > 17 {
			return misconfigured("Invalid value [%s] for parameter '%s'. Value must be between 1 and 17.", value, name)
		}
	case "lz4_compressor_type":
		if value != "fast" && value != "high" {
			return misconfigured("Invalid compressor type '%s' specified for LZ4 parameter '%s'. Valid options are [high, fast].",
				value, name)
		}
	}
	return nil
}
