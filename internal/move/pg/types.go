package pg

import (
	"strconv"
	"strings"
)

// splitType takes the modifier out of a type's name: "numeric(10,2)" gives
// "numeric" and 10, 2; "timestamp(3) with time zone" gives "timestamp with
// time zone" and 3.
func splitType(name string) (base string, args []int) {
	open := strings.IndexByte(name, '(')
	if open < 0 || strings.HasPrefix(name, `"`) {
		return name, nil
	}
	shut := strings.IndexByte(name[open:], ')')
	if shut < 0 {
		return name, nil
	}
	for part := range strings.SplitSeq(name[open+1:open+shut], ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return name, nil
		}
		args = append(args, n)
	}
	return name[:open] + name[open+shut+1:], args
}

// wider lists the types that hold every value of another and give it back
// unchanged when cast.
var wider = map[string][]string{
	"smallint": {"integer", "bigint", "numeric"},
	"integer":  {"bigint", "numeric"},
	"bigint":   {"numeric"},
	"real":     {"double precision"},
	"text":     {"character varying"},
}

// lossless reports whether type to holds every value of type from.
func lossless(from, to string) bool {
	if from == to {
		return true
	}
	f, fa := splitType(from)
	t, ta := splitType(to)
	if f != t {
		if f == "character varying" && t == "text" {
			return true
		}
		for _, w := range wider[f] {
			if w == t {
				return len(ta) == 0
			}
		}
		return false
	}
	if len(ta) == 0 {
		// No modifier: nothing is cut; but character alone means one character.
		return t != "character" && t != "bit"
	}
	if len(fa) != len(ta) {
		return false
	}
	switch t {
	case "numeric":
		// Another scale would change how many digits are shown after the point.
		return fa[1] == ta[1] && fa[0] <= ta[0]
	case "character", "bit", "bit[]", "character[]":
		return fa[0] == ta[0]
	}
	return fa[0] <= ta[0]
}
