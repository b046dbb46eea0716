package server

// StatementKind groups statements for metrics by their first word.
type StatementKind uint8

// The kinds of statement.
const (
	StatementSelect StatementKind = iota
	StatementInsert
	StatementUpdate
	StatementDelete
	StatementBatch
	StatementSchema // CREATE, ALTER, DROP, TRUNCATE
	StatementOther  // USE, DESCRIBE, roles and grants, and what is no statement
	NumStatements
)

var statementNames = [NumStatements]string{"select", "insert", "update", "delete", "batch", "schema", "other"}

// String returns the name used as a metric label.
func (k StatementKind) String() string { return statementNames[k] }

var statementWords = map[string]StatementKind{
	"SELECT": StatementSelect, "INSERT": StatementInsert, "UPDATE": StatementUpdate, "DELETE": StatementDelete,
	"BEGIN": StatementBatch, "CREATE": StatementSchema, "ALTER": StatementSchema, "DROP": StatementSchema, "TRUNCATE": StatementSchema,
}

// statementOf looks at a statement's first word, behind spaces; a statement
// behind a comment is StatementOther.
func statementOf[T string | []byte](text T) StatementKind {
	i := 0
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	var word [9]byte // one more than the longest, so that longer words differ
	n := 0
	for ; i < len(text) && n < len(word); i++ {
		c := text[i] &^ 0x20 // upper case of a letter
		if c < 'A' || c > 'Z' {
			break
		}
		word[n] = c
		n++
	}
	if k, ok := statementWords[string(word[:n])]; ok {
		return k
	}
	return StatementOther
}

// statement is what a request runs; ok is false for PREPARE and the like.
func (w *work) statement() (k StatementKind, ok bool) {
	switch w.kind {
	case KindQuery:
		return statementOf(w.query.Text), true
	case KindExecute:
		if w.prepared == nil { // unknown to this server
			return StatementOther, true
		}
		return statementOf(w.prepared.Text), true
	case KindBatch:
		return StatementBatch, true
	}
	return 0, false
}
