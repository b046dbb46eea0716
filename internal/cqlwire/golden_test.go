package cqlwire

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestGolden keeps the bytes of every sample message in every version.
func TestGolden(t *testing.T) {
	datadriven.RunTest(t, "testdata/messages", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "encode" {
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
		name := strings.TrimSpace(d.Input)
		var out strings.Builder
		last := ""
		for _, v := range versions {
			for _, m := range sampleMessages(v) {
				if m.name != name {
					continue
				}
				dump := hex.Dump(m.encode(v))
				if dump == last {
					dump = "(the same)\n"
				} else {
					last = dump
				}
				fmt.Fprintf(&out, "%s\n%s", v, dump)
			}
		}
		if out.Len() == 0 {
			d.Fatalf(t, "no message %q", name)
		}
		return out.String()
	})
}
