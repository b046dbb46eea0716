package server

import "testing"

func TestStatementOf(t *testing.T) {
	for text, want := range map[string]StatementKind{
		"SELECT 1": StatementSelect, " \n\tselect": StatementSelect, "Insert INTO": StatementInsert, "UPDATE": StatementUpdate,
		"DELETE\tx": StatementDelete, "BEGIN BATCH": StatementBatch, "TRUNCATE t": StatementSchema, "drop(": StatementSchema,
		"": StatementOther, "SELECTED": StatementOther, "selects": StatementOther, "{ELECT": StatementOther, "ſelect": StatementOther,
		"-- c\nSELECT": StatementOther, "USE x": StatementOther, "TRUNCATES": StatementOther,
	} {
		if got := statementOf(text); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
		if n := testing.AllocsPerRun(100, func() { statementOf(text) }); n > 0 {
			t.Errorf("%q allocates %v times", text, n)
		}
	}
}
