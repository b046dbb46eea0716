package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestDefaultsAreValid(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestLoadYAML(t *testing.T) {
	c := Default()
	err := c.LoadYAML("f.yaml", []byte("cql: 0.0.0.0:9142\ncache_size: 1GiB\nsync_period: 50ms\n"+
		"data_directories: [a, b]\ncql_tls:\n  certificate: c.pem\n  key: k.pem\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.CQL, want.CacheSize, want.SyncPeriod = "0.0.0.0:9142", 1<<30, 50*time.Millisecond
	want.DataDirectories = []string{"a", "b"}
	want.CQLTLS = TLS{Certificate: "c.pem", Key: "k.pem"}
	if d := cmp.Diff(want, c, cmpopts.IgnoreUnexported(Config{})); d != "" {
		t.Fatal(d)
	}
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct{ yaml, want string }{
		"unknown key":             {"cql: 127.0.0.1:1\nnative_port: 3\n", `line 2: there is no setting "native_port"`},
		"unknown nested":          {"cql_tls:\n  cert: x\n", `line 2: there is no setting "cert"`},
		"bad size":                {"cache_size: lots\n", `line 1: "lots" is not a size`},
		"negative size":           {"cache_size: -1\n", `is not a size`},
		"bad type":                {"tombstone_warn_threshold: many\n", "line 1"},
		"second document":         {"cql: 127.0.0.1:1\n---\nhttp: 127.0.0.1:2\n", "second YAML document"},
		"bad enum":                {"auth: kerberos\n", `auth: "kerberos" is not one of`},
		"journal mismatch":        {"data_directories: [a, b]\njournal_directories: [j]\n", "1 given for 2 data directories"},
		"bad address":             {"cql: localhost\n", "cql:"},
		"half TLS":                {"http_tls:\n  key: k\n", "http_tls: certificate and key belong together"},
		"bad broadcast":           {"broadcast_address: myhost\n", "broadcast_address"},
		"guardrail zero":          {"cql: 127.0.0.1:1\ntables_warn_threshold: 0\n", "line 2: 0 is not allowed; if attempting to disable use -1"},
		"guardrail negative":      {"tables_warn_threshold: -2\n", "line 1: negative values are not allowed, outside of -1 which disables the guardrail"},
		"guardrail size zero":     {"partition_size_warn_threshold: 0B\n", "line 1: 0 is not allowed"},
		"guardrail size negative": {"partition_size_warn_threshold: -5MiB\n", `line 1: "-5MiB" is not a size`},
		"guardrail text":          {"page_size_fail_threshold: many\n", "line 1"},
		"guardrail warn over fail": {
			"cql: 127.0.0.1:1\npage_size_warn_threshold: 9\npage_size_fail_threshold: 5\n",
			"f.yaml line 2: page_size_warn_threshold: The warn threshold 9 for page_size_warn_threshold should be lower than the fail threshold 5",
		},
		"guardrail size over": {
			"collection_size_fail_threshold: 1KiB\ncollection_size_warn_threshold: 1MiB\n",
			"f.yaml line 2: collection_size_warn_threshold: The warn threshold 1MiB for",
		},
		"duplicate key": {"cql: 127.0.0.1:1\ncql: 127.0.0.1:2\n", "already defined"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			err := c.LoadYAML("f.yaml", []byte(tc.yaml))
			if err == nil {
				err = c.Validate()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestEnvAndSet(t *testing.T) {
	c := Default()
	if err := c.LoadEnv([]string{"PATH=/x", "VARVE_SERVICE_HOST=10.0.0.1", "VARVE_PORT_9042_TCP=tcp://10.0.0.1:9042", "VARVE_CQL=127.0.0.1:7", "VARVE_CQL_TLS_KEY=k", "VARVE_DATA_DIRECTORIES=a, b"}); err != nil {
		t.Fatal(err)
	}
	if c.CQL != "127.0.0.1:7" || c.CQLTLS.Key != "k" || len(c.DataDirectories) != 2 {
		t.Fatalf("%+v", c)
	}
	if err := c.LoadEnv([]string{"VARVE_NO_SUCH=1"}); err == nil || !strings.Contains(err.Error(), "VARVE_NO_SUCH") {
		t.Fatal(err)
	}
	for key, bad := range map[string]string{"cache_size": "x", "sync_period": "5", "tombstone_warn_threshold": "1.5", "cql_tls.require_client_auth": "yes!", "nope": "1"} {
		if err := c.Set(key, bad); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%s: %v", key, bad, err)
		}
	}
}

func TestBytesText(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "17": 17, "1KiB": 1024, "3MiB": 3 << 20, "2GiB": 2 << 30, "5B": 5} {
		got, err := ParseBytes(text)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
		if again, err := ParseBytes(got.String()); err != nil || again != got {
			t.Errorf("%s does not survive String: %v, %v", text, again, err)
		}
	}
	if _, err := ParseBytes("9999999999999GiB"); err == nil {
		t.Error("overflow accepted")
	}
}

// The example file documents every key with its default.
func TestExampleFileHoldsTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../../docs/varve.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := &Config{}
	if err := c.LoadYAML("docs/varve.yaml", text); err != nil {
		t.Fatal(err)
	}
	if len(c.JournalDirectories) == 0 {
		c.JournalDirectories = nil
	}
	if d := cmp.Diff(Default(), c, cmpopts.IgnoreUnexported(Config{})); d != "" {
		t.Fatal(d)
	}
	for _, k := range Keys() {
		if leaf := k[strings.LastIndexByte(k, '.')+1:]; !strings.Contains(string(text), leaf+":") {
			t.Errorf("docs/varve.yaml lacks %s", k)
		}
	}
}
