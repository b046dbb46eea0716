package cql

import "strconv"

// kind is a lexical token's kind. Keywords are ordered by how far they may
// serve as names, so that a range comparison answers it.
type kind uint8

const (
	tEOF kind = iota
	tIdent
	tQuoted      // "name"
	tEmptyQuoted // ""
	tString
	tInteger
	tFloat
	tBoolean
	tDuration
	tHex
	tUUID
	tQMark
	tRange   // ..
	tLParen  // (
	tRParen  // )
	tLSquare // [
	tRSquare // ]
	tLCurly  // {
	tRCurly  // }
	tComma
	tDot
	tColon
	tSemi
	tPlus
	tMinus
	tStar
	tSlash
	tPercent
	tEq
	tNe
	tLt
	tLe
	tGt
	tGe
	tPlusEq
	tMinusEq
	tNegNaN
	tNegInfinity

	kNaN // reserved keywords from here
	kInfinity
	kAdd
	kAllow
	kAlter
	kAnd
	kApply
	kAsc
	kAuthorize
	kBatch
	kBegin
	kBy
	kColumnFamily
	kCreate
	kDelete
	kDesc
	kDescribe
	kDrop
	kEntries
	kExecute
	kFrom
	kFull
	kGrant
	kIf
	kIn
	kIndex
	kInsert
	kInto
	kIs
	kKeyspace
	kLimit
	kMaterialized
	kModify
	kNoRecursive
	kNot
	kNull
	kOf
	kOn
	kOr
	kOrder
	kPrimary
	kRename
	kRevoke
	kSchema
	kSelect
	kSet
	kTo
	kToken
	kTruncate
	kUnlogged
	kUpdate
	kUse
	kUsing
	kView
	kWhere
	kWith

	kTTL // names, but not of functions, from here
	kWriteTime
	kMaxWriteTime
	kKey
	kCast
	kJSON
	kDistinct
	kCount // a name and, as a special case, a function

	kAccess // names of anything, user types too, from here
	kAggregate
	kAggregates
	kAll
	kAnn
	kAs
	kCalled
	kCidrs
	kCluster
	kClustering
	kCompact
	kContains
	kCustom
	kDatacenters
	kDefault
	kExists
	kFiltering
	kFinalFunc
	kFrozen
	kFunction
	kFunctions
	kGroup
	kHashed
	kIdentity
	kInitCond
	kInput
	kInternals
	kKeys
	kKeyspaces
	kLanguage
	kLike
	kList
	kLogin
	kMap
	kMasked
	kMBean
	kMBeans
	kNoLogin
	kNoSuperuser
	kOnly
	kOptions
	kPartition
	kPassword
	kPer
	kPermission
	kPermissions
	kReplace
	kReturns
	kRole
	kRoles
	kSelectMasked
	kSFunc
	kStatic
	kStorage
	kSType
	kSuperuser
	kTables
	kTrigger
	kTuple
	kType
	kTypes
	kUnmask
	kUnset
	kUser
	kUsers
	kValues
	kVector

	kASCII // native types from here
	kBigint
	kBlob
	kBoolean
	kCounter
	kDate
	kDecimal
	kDouble
	kDuration
	kFloat
	kInet
	kInt
	kSmallint
	kText
	kTime
	kTimestamp
	kTimeuuid
	kTinyint
	kUUID
	kVarchar
	kVarint
	numKinds
)

const (
	kFirst      = kNaN
	kUnreserved = kTTL
	kBasic      = kAccess
	kNative     = kASCII
)

// isName reports that a token can be an identifier.
func (k kind) isName() bool { return k == tIdent || k == tQuoted || k >= kUnreserved }

// isFunction reports that a token can name a function.
func (k kind) isFunction() bool {
	return k == tIdent || k == tQuoted || k >= kBasic || k == kToken || k == kCount
}

// isComparison reports = != < <= > >=, which are ordered as the Ops are.
func (k kind) isComparison() bool { return k >= tEq && k <= tGe }

func (k kind) isNative() bool { return k >= kNative }

// keywords are spelled in lower case, parallel to the kinds from kFirst on.
var keywords = [numKinds - kFirst]string{
	"nan", "infinity", "add", "allow", "alter", "and", "apply", "asc", "authorize", "batch", "begin",
	"by", "columnfamily", "create", "delete", "desc", "describe", "drop", "entries", "execute", "from",
	"full", "grant", "if", "in", "index", "insert", "into", "is", "keyspace", "limit", "materialized",
	"modify", "norecursive", "not", "null", "of", "on", "or", "order", "primary", "rename", "revoke",
	"schema", "select", "set", "to", "token", "truncate", "unlogged", "update", "use", "using", "view",
	"where", "with",

	"ttl", "writetime", "maxwritetime", "key", "cast", "json", "distinct", "count",

	"access", "aggregate", "aggregates", "all", "ann", "as", "called", "cidrs", "cluster", "clustering",
	"compact", "contains", "custom", "datacenters", "default", "exists", "filtering", "finalfunc",
	"frozen", "function", "functions", "group", "hashed", "identity", "initcond", "input", "internals",
	"keys", "keyspaces", "language", "like", "list", "login", "map", "masked", "mbean", "mbeans",
	"nologin", "nosuperuser", "only", "options", "partition", "password", "per", "permission",
	"permissions", "replace", "returns", "role", "roles", "select_masked", "sfunc", "static", "storage",
	"stype", "superuser", "tables", "trigger", "tuple", "type", "types", "unmask", "unset", "user",
	"users", "values", "vector",

	"ascii", "bigint", "blob", "boolean", "counter", "date", "decimal", "double", "duration", "float",
	"inet", "int", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid", "varchar",
	"varint",
}

// synonyms are further spellings of keywords.
var synonyms = [...]struct {
	word string
	kind kind
}{
	{"table", kColumnFamily},
	{"columnfamilies", kTables},
	{"true", tBoolean},
	{"false", tBoolean},
}

const (
	wordSlots   = 1024 // a power of two, four times the number of words
	wordMaxLen  = 16
	wordHashMul = 31
)

type wordSlot struct {
	word string
	kind kind
}

// words is an open-addressed hash table of all keywords.
var words = buildWords()

func buildWords() *[wordSlots]wordSlot {
	t := new([wordSlots]wordSlot)
	add := func(w string, k kind) {
		h := uint32(0)
		for i := 0; i < len(w); i++ {
			h = h*wordHashMul + uint32(w[i]|0x20)
		}
		for t[h%wordSlots].word != "" {
			h++
		}
		t[h%wordSlots] = wordSlot{w, k}
	}
	for i, w := range keywords {
		add(w, kFirst+kind(i))
	}
	for _, s := range synonyms {
		add(s.word, s.kind)
	}
	return t
}

// lookupWord returns the keyword's kind, or tIdent; h is the word's hash over its bytes | 0x20.
func lookupWord(w string, h uint32) kind {
	if len(w) > wordMaxLen {
		return tIdent
	}
	for {
		s := &words[h%wordSlots]
		if s.word == "" {
			return tIdent
		}
		if len(s.word) == len(w) && equalFold(w, s.word) {
			return s.kind
		}
		h++
	}
}

// equalFold compares w with a lower-case word of the same length.
func equalFold(w, lower string) bool {
	for i := 0; i < len(lower); i++ {
		c := w[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

var punctNames = map[kind]string{
	tEOF: "EOF", tIdent: "IDENT", tQuoted: "QUOTED_NAME", tEmptyQuoted: "EMPTY_QUOTED_NAME",
	tString: "STRING_LITERAL", tInteger: "INTEGER", tFloat: "FLOAT", tBoolean: "BOOLEAN",
	tDuration: "DURATION", tHex: "HEXNUMBER", tUUID: "UUID", tQMark: "QMARK", tRange: "RANGE",
	tLParen: "'('", tRParen: "')'", tLSquare: "'['", tRSquare: "']'", tLCurly: "'{'", tRCurly: "'}'",
	tComma: "','", tDot: "'.'", tColon: "':'", tSemi: "';'", tPlus: "'+'", tMinus: "'-'", tStar: "'*'",
	tSlash: "'/'", tPercent: "'%'", tEq: "'='", tNe: "'!='", tLt: "'<'", tLe: "'<='", tGt: "'>'",
	tGe: "'>='", tPlusEq: "'+='", tMinusEq: "'-='", tNegNaN: "K_NEGATIVE_NAN",
	tNegInfinity: "K_NEGATIVE_INFINITY", kNaN: "K_POSITIVE_NAN", kInfinity: "K_POSITIVE_INFINITY",
}

// String names the kind as Cassandra's grammar does, which its messages show.
func (k kind) String() string {
	if s, ok := punctNames[k]; ok {
		return s
	}
	if k >= kFirst && k < numKinds {
		b := []byte("K_" + keywords[k-kFirst])
		for i := range b {
			if b[i] >= 'a' && b[i] <= 'z' {
				b[i] -= 'a' - 'A'
			}
		}
		return string(b)
	}
	return "kind " + strconv.Itoa(int(k))
}
