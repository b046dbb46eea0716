package cql

import "varve/internal/cqltype"

// Name is a possibly keyspace-qualified name; Keyspace is "" where not given.
// Both parts are in their final case (unquoted names folded to lower case).
type Name struct{ Keyspace, Name string }

// TypeRef is a type as written, before user types are looked up.
type TypeRef struct {
	Name      Name      // "int", "list", "frozen", "tuple", "vector", ks.udt …; lower case unless quoted
	Args      []TypeRef // of list, set, map, tuple, vector and frozen
	Dim       int       // vector
	ClassName string    // 'org.apache…' written as a string; Name is then empty
	Quoted    bool      // the name was in double quotes, so it is a user type
}

// Statement is any parsed CQL statement.
type Statement interface{ statement() }

// Expr is a term or a selector: one tree for both, since CQL lets functions,
// arithmetic and literals stand in either place. Which kinds are allowed
// where is decided by the planner (a Column in VALUES is an error there).
type Expr interface{ expr() }

type (
	// Literal is a constant.
	Literal struct {
		Kind cqltype.LiteralKind
		Text string
	}
	// Marker is ? or :name. Index counts markers in the statement from 0.
	Marker struct {
		Index int
		Name  string // "" for ?
	}
	// Column names a column (or, in a UDT literal's place, nothing else).
	Column struct{ Name string }
	// ListLit is [a, b].
	ListLit struct{ Elems []Expr }
	// SetLit is {a, b}; {} is an empty SetLit and may stand for a map too.
	SetLit struct{ Elems []Expr }
	// MapLit is {k: v, …}.
	MapLit struct{ Keys, Values []Expr }
	// UDTLit is {field: value, …}. In a SELECT list it may be a map keyed by
	// columns of these names as well.
	UDTLit struct {
		Fields []string
		Values []Expr
	}
	// TupleLit is (a, b). An expression in parentheses is a TupleLit of one
	// element, since only the type wanted tells the two apart: it stands for its
	// element unless a tuple is wanted. Operands of arithmetic are bare.
	TupleLit struct{ Elems []Expr }
	// Call is a function call. count(*) and count(1) are Call{count} with Star set.
	Call struct {
		Func Name
		Args []Expr
		Star bool
	}
	// TypeHint is (type) expr.
	TypeHint struct {
		Type TypeRef
		Expr Expr
	}
	// CastExpr is CAST(expr AS type).
	CastExpr struct {
		Expr Expr
		Type TypeRef
	}
	// Binary is arithmetic: + - * / %.
	Binary struct {
		Op   byte
		L, R Expr
	}
	// Neg is -expr; the sign of -5 is part of the Literal, that of - 5 is not.
	Neg struct{ Expr Expr }
	// Field is expr.field of a UDT.
	Field struct {
		Expr Expr
		Name string
	}
	// Element is expr[key] of a map, set or list.
	Element struct{ Expr, Key Expr }
	// SliceExpr is expr[from..to]; either bound may be nil.
	SliceExpr struct{ Expr, From, To Expr }
	// Meta is WRITETIME(x), MAXWRITETIME(x) or TTL(x); x is a Column, Field, Element or SliceExpr.
	Meta struct {
		Kind string // "writetime", "maxwritetime", "ttl"
		Expr Expr
	}
)

func (*Literal) expr()   {}
func (*Marker) expr()    {}
func (*Column) expr()    {}
func (*ListLit) expr()   {}
func (*SetLit) expr()    {}
func (*MapLit) expr()    {}
func (*UDTLit) expr()    {}
func (*TupleLit) expr()  {}
func (*Call) expr()      {}
func (*TypeHint) expr()  {}
func (*CastExpr) expr()  {}
func (*Binary) expr()    {}
func (*Neg) expr()       {}
func (*Field) expr()     {}
func (*Element) expr()   {}
func (*SliceExpr) expr() {}
func (*Meta) expr()      {}

// Op is a relation's operator.
type Op uint8

// The operators of WHERE and IF.
const (
	Eq Op = iota
	Ne
	Lt
	Le
	Gt
	Ge
	In
	NotIn
	Contains
	ContainsKey
	NotContains
	NotContainsKey
	Like
	IsNotNull
	Ann
)

// Relation is one condition of WHERE.
type Relation struct {
	Columns []string // one; several with Tuple or Token
	Tuple   bool     // (a, b) > (1, 2)
	Token   bool     // token(a, b) > …
	Key     Expr     // m[key] = …; nil otherwise
	Op      Op
	Value   Expr   // right side; for IN a Marker when written IN ?, else nil
	Values  []Expr // right side of IN (…); may be empty
}

// Condition is one condition of IF: column, column[key] or column.field.
type Condition struct {
	Column string
	Key    Expr   // c[key]; nil otherwise
	Field  string // c.field; "" otherwise
	Op     Op     // Eq Ne Lt Le Gt Ge In, Contains, ContainsKey
	Value  Expr
	Values []Expr
}

// Using holds USING TIMESTAMP and TTL; nil where absent.
type Using struct{ Timestamp, TTL Expr }

// Ordering is one column of ORDER BY; Ann is set for ORDER BY c ANN OF v.
type Ordering struct {
	Column string
	Desc   bool
	Ann    Expr
}

// Selection is one item of a SELECT list.
type Selection struct {
	Expr  Expr
	Alias string // "" where absent
}

// Select is a SELECT statement.
type Select struct {
	Table             Name
	JSON, Distinct    bool
	Items             []Selection // empty: *
	Where             []Relation
	GroupBy           []Expr // Column or Call
	OrderBy           []Ordering
	PerPartitionLimit Expr
	Limit             Expr
	AllowFiltering    bool
}

// Insert is an INSERT statement, of VALUES or JSON.
type Insert struct {
	Table       Name
	Columns     []string
	Values      []Expr
	JSON        Expr // Literal string or Marker; nil for VALUES
	DefaultNull bool // JSON … DEFAULT NULL (the default) against DEFAULT UNSET
	IfNotExists bool
	Using       Using
}

// AssignOp is the kind of a SET clause's item.
type AssignOp uint8

// The kinds of assignment.
const (
	AssignSet     AssignOp = iota // c = v
	AssignAdd                     // c = c + v, c += v
	AssignSub                     // c = c - v, c -= v
	AssignPrepend                 // c = v + c
	AssignElement                 // c[key] = v
	AssignField                   // c.field = v
)

// Assignment is one item of UPDATE … SET.
type Assignment struct {
	Column string
	Op     AssignOp
	Key    Expr
	Field  string
	Value  Expr
}

// Update is an UPDATE statement.
type Update struct {
	Table    Name
	Using    Using
	Set      []Assignment
	Where    []Relation
	If       []Condition
	IfExists bool
}

// Deletion is one item of DELETE's column list.
type Deletion struct {
	Column string
	Key    Expr   // c[key]
	Field  string // c.field
}

// Delete is a DELETE statement.
type Delete struct {
	Table    Name
	Columns  []Deletion // empty: rows
	Using    Using
	Where    []Relation
	If       []Condition
	IfExists bool
}

// BatchKind tells a batch's kind.
type BatchKind uint8

// The kinds of batch.
const (
	LoggedBatch BatchKind = iota
	UnloggedBatch
	CounterBatch
)

// Batch is BEGIN … APPLY BATCH. Markers count through the whole batch.
type Batch struct {
	Kind       BatchKind
	Using      Using
	Statements []Statement // Insert, Update, Delete
}

// Property is one property of WITH: a string-like constant, or a map.
type Property struct {
	Name  string
	Value *Literal          // nil for a map
	Map   map[string]string // nil for a constant; keys and values as text
	Keys  []string          // the map's keys in the order written
}

// ClusteringOrder is one column of WITH CLUSTERING ORDER BY.
type ClusteringOrder struct {
	Column string
	Desc   bool
}

// ColumnDef is a column of CREATE TABLE or ALTER TABLE ADD.
type ColumnDef struct {
	Name       string
	Type       TypeRef
	Static     bool
	PrimaryKey bool // inline PRIMARY KEY
	Mask       bool // MASKED WITH …, which Varve refuses
}

type (
	// CreateKeyspace is CREATE KEYSPACE.
	CreateKeyspace struct {
		Name        string
		IfNotExists bool
		With        []Property
	}
	// AlterKeyspace is ALTER KEYSPACE.
	AlterKeyspace struct {
		Name     string
		IfExists bool
		With     []Property
	}
	// DropKeyspace is DROP KEYSPACE.
	DropKeyspace struct {
		Name     string
		IfExists bool
	}
	// CreateTable is CREATE TABLE. Like is the source of CREATE TABLE … LIKE.
	CreateTable struct {
		Table          Name
		IfNotExists    bool
		Columns        []ColumnDef
		PartitionKey   []string
		Clustering     []string
		HasPrimaryKey  int // how many PRIMARY KEY definitions were written
		CompactStorage bool
		Order          []ClusteringOrder
		With           []Property
	}
	// AlterTable is ALTER TABLE; one of its parts is set.
	AlterTable struct {
		Table          Name
		IfExists       bool
		Add            []ColumnDef
		AddIfNotExists bool
		Drop           []string
		DropIfExists   bool
		DropTimestamp  Expr // USING TIMESTAMP of DROP
		RenameFrom     []string
		RenameTo       []string
		RenameIfExists bool
		AlterColumn    string // ALTER c TYPE t, refused as in Cassandra
		AlterType      TypeRef
		With           []Property
		DropCompact    bool
		Mask           bool // ALTER c MASKED / DROP MASKED
	}
	// DropTable is DROP TABLE.
	DropTable struct {
		Table    Name
		IfExists bool
	}
	// Truncate is TRUNCATE.
	Truncate struct{ Table Name }
	// CreateType is CREATE TYPE.
	CreateType struct {
		Type        Name
		IfNotExists bool
		Fields      []string
		Types       []TypeRef
	}
	// AlterType is ALTER TYPE.
	AlterType struct {
		Type           Name
		IfExists       bool
		AddField       string
		AddIfNotExists bool
		AddType        TypeRef
		RenameFrom     []string
		RenameTo       []string
		RenameIfExists bool
		AlterField     string // ALTER f TYPE t, refused as in Cassandra
	}
	// DropType is DROP TYPE.
	DropType struct {
		Type     Name
		IfExists bool
	}
	// IndexTarget is what an index is on.
	IndexTarget struct {
		Column string
		Kind   string // "", "values", "keys", "entries", "full"
	}
	// CreateIndex is CREATE [CUSTOM] INDEX.
	CreateIndex struct {
		Name        Name // may be empty
		Table       Name
		IfNotExists bool
		Custom      bool
		Using       string
		Targets     []IndexTarget
		Options     map[string]string
		With        []Property
	}
	// DropIndex is DROP INDEX.
	DropIndex struct {
		Name     Name
		IfExists bool
	}
	// Use is USE.
	Use struct{ Keyspace string }
	// Unsupported is a statement whose grammar is Cassandra's and whose
	// feature Varve refuses: materialized views, functions, aggregates, triggers.
	Unsupported struct{ Feature string } // "materialized views", "user-defined functions", …
)

type (
	// RoleOptions are those of CREATE and ALTER ROLE (and USER); nil where absent.
	RoleOptions struct {
		Password          *string
		HashedPassword    *string
		GeneratedPassword bool
		Superuser         *bool
		Login             *bool
		Options           map[string]string
		Datacenters       []string // ACCESS TO DATACENTERS; nil where absent
		AllDatacenters    bool
		CIDRs             []string // ACCESS FROM CIDRS
		AllCIDRs          bool
	}
	// CreateRole is CREATE ROLE or CREATE USER (User true: login defaults to true).
	CreateRole struct {
		Role        string
		IfNotExists bool
		User        bool
		Options     RoleOptions
	}
	// AlterRole is ALTER ROLE or ALTER USER.
	AlterRole struct {
		Role     string
		IfExists bool
		User     bool
		Options  RoleOptions
	}
	// DropRole is DROP ROLE or DROP USER.
	DropRole struct {
		Role     string
		IfExists bool
		User     bool
	}
	// GrantRole is GRANT role TO grantee, or REVOKE.
	GrantRole struct {
		Revoke  bool
		Role    string
		Grantee string
	}
	// Resource is what a permission is on.
	Resource struct {
		Kind string // "all keyspaces", "keyspace", "table", "all tables", "all roles", "role", "all functions", "function", "mbean", "all mbeans"
		Name Name   // keyspace: Keyspace; table: both; role: Name
	}
	// GrantPermission is GRANT permissions ON resource TO role, or REVOKE.
	GrantPermission struct {
		Revoke      bool
		Permissions []string // upper case; empty: ALL
		Resource    Resource
		Role        string
	}
	// ListPermissions is LIST … PERMISSIONS.
	ListPermissions struct {
		Permissions []string // empty: ALL
		Resource    *Resource
		Of          string
		NoRecursive bool
	}
	// ListRoles is LIST ROLES (Users: LIST USERS).
	ListRoles struct {
		Of          string
		NoRecursive bool
		Users       bool
		Superusers  bool
	}
	// Describe is DESCRIBE, which the server answers since Cassandra 4.0.
	Describe struct {
		// What is "keyspaces", "keyspace", "schema", "full schema", "tables", "table",
		// "types", "type", "index", "functions", "function", "aggregates", "aggregate",
		// "materialized view", "cluster" or "any".
		What      string
		Name      Name
		Only      bool // KEYSPACE ONLY
		Internals bool // WITH INTERNALS
	}
)

func (*Select) statement()          {}
func (*Insert) statement()          {}
func (*Update) statement()          {}
func (*Delete) statement()          {}
func (*Batch) statement()           {}
func (*CreateKeyspace) statement()  {}
func (*AlterKeyspace) statement()   {}
func (*DropKeyspace) statement()    {}
func (*CreateTable) statement()     {}
func (*AlterTable) statement()      {}
func (*DropTable) statement()       {}
func (*Truncate) statement()        {}
func (*CreateType) statement()      {}
func (*AlterType) statement()       {}
func (*DropType) statement()        {}
func (*CreateIndex) statement()     {}
func (*DropIndex) statement()       {}
func (*Use) statement()             {}
func (*Unsupported) statement()     {}
func (*CreateRole) statement()      {}
func (*AlterRole) statement()       {}
func (*DropRole) statement()        {}
func (*GrantRole) statement()       {}
func (*GrantPermission) statement() {}
func (*ListPermissions) statement() {}
func (*ListRoles) statement()       {}
func (*Describe) statement()        {}
