package cqltype

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestDataDriven runs the files of testdata. In all but the class and natural
// commands the first line of the input is a marshal class name and every
// further line is a value; "(empty)" stands for an empty line.
func TestDataDriven(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			lines := strings.Split(d.Input, "\n")
			if d.Cmd == "class" || d.Cmd == "natural" {
				return eachLine(lines, goldenNames[d.Cmd])
			}
			typ, _, err := ParseClassName(lines[0])
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			if d.Cmd == "key" {
				return goldenKeys(d, t, typ, lines[1:])
			}
			run := goldenValues[d.Cmd]
			if run == nil {
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return eachLine(lines[1:], func(line string) (string, error) { return run(typ, line) })
		})
	})
}

func eachLine(lines []string, run func(string) (string, error)) string {
	var b strings.Builder
	for _, line := range lines {
		in := line
		if line == "(empty)" {
			in = ""
		}
		out, err := run(in)
		if err != nil {
			fmt.Fprintf(&b, "%s\n    error: %v\n", line, err)
			continue
		}
		fmt.Fprintf(&b, "%s\n    %s\n", line, out)
	}
	return b.String()
}

func show(b []byte, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case b == nil:
		return "null", nil
	case len(b) == 0:
		return "empty", nil
	}
	return hex.EncodeToString(b), nil
}

var goldenNames = map[string]func(string) (string, error){
	"class": func(s string) (string, error) {
		t, reversed, err := ParseClassName(s)
		if err != nil {
			return "", err
		}
		short := strings.ReplaceAll(ClassNameOf(t), marshalPackage, "")
		if reversed {
			short += " reversed"
		}
		return t.String() + "  " + short, nil
	},
	"natural": func(s string) (string, error) {
		kind, text, _ := strings.Cut(s, " ")
		return LiteralType(LiteralKind(slices.Index(literalKindNames[:], kind)), text).String(), nil
	},
}

var goldenValues = map[string]func(*Type, string) (string, error){
	"text":     func(t *Type, s string) (string, error) { return show(FromText(t, s)) },
	"fromjson": func(t *Type, s string) (string, error) { return show(FromJSON(t, []byte(s))) },
	"hex":      func(t *Type, s string) (string, error) { return show(ParseLiteral(t, LitHex, s)) },
	"validate": func(t *Type, s string) (string, error) { return show(goldenBytes(t, s)) },
	"format": func(t *Type, s string) (string, error) {
		b, err := goldenBytes(t, s)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s    %s", FormatLiteral(nil, t, b), AppendJSON(nil, t, b)), nil
	},
}

func goldenBytes(t *Type, s string) ([]byte, error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		return nil, err
	}
	return b, Validate(t, b)
}

// goldenKeys writes the keys of values given as JSON, in ascending order.
func goldenKeys(d *datadriven.TestData, t *testing.T, typ *Type, lines []string) string {
	type row struct {
		asc  []byte
		text string
	}
	var rows []row
	for _, line := range lines {
		v, err := FromJSON(typ, []byte(line))
		if err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
		asc, err := AppendKey(nil, typ, v, false)
		if err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
		desc, _ := AppendKey(nil, typ, v, true)
		rows = append(rows, row{asc, fmt.Sprintf("%s\n    asc  %x\n    desc %x\n", line, asc, desc)})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return bytes.Compare(a.asc, b.asc) })
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(r.text)
	}
	return b.String()
}
