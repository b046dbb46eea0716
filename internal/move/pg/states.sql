-- The state of moves, in the database that they leave. What people ask for by
-- name has a column; the rest of a record is in "more".
CREATE TABLE IF NOT EXISTS varve_move.moves (
  move         text PRIMARY KEY,
  state        text NOT NULL,
  generation   bigint NOT NULL,
  canonical    text NOT NULL CHECK (canonical IN ('origin', 'target')),
  read_percent int NOT NULL,
  shadow       boolean NOT NULL,
  paused       boolean NOT NULL,
  trouble      text NOT NULL,
  file         text NOT NULL,
  more         jsonb NOT NULL,
  intent       jsonb,
  last_intent  bigint NOT NULL DEFAULT 0,
  live         jsonb,
  owner        text NOT NULL DEFAULT '',
  token        bigint NOT NULL DEFAULT 0,
  lease_until  timestamptz NOT NULL DEFAULT '-infinity',
  created      timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS varve_move.history (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  move       text NOT NULL,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  by         text NOT NULL,
  from_state text NOT NULL,
  to_state   text NOT NULL,
  generation bigint NOT NULL,
  why        text NOT NULL,
  measured   text[] NOT NULL
);
CREATE INDEX IF NOT EXISTS history_move ON varve_move.history (move, id);
CREATE TABLE IF NOT EXISTS varve_move.nodes (
  move   text NOT NULL,
  name   text NOT NULL,
  seen   timestamptz NOT NULL,
  report jsonb NOT NULL,
  PRIMARY KEY (move, name)
);
CREATE TABLE IF NOT EXISTS varve_move.samples (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  move   text NOT NULL,
  at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  node   text NOT NULL,
  query  text NOT NULL,
  origin text NOT NULL,
  target text NOT NULL
);
CREATE INDEX IF NOT EXISTS samples_move ON varve_move.samples (move, id);
CREATE TABLE IF NOT EXISTS varve_move.differences (
  move  text NOT NULL,
  tbl   int NOT NULL,
  rule  boolean NOT NULL,
  key   bytea NOT NULL,
  kind  text NOT NULL,
  shown text NOT NULL,
  found timestamptz NOT NULL,
  PRIMARY KEY (move, tbl, rule, key)
);
-- An empty bound is none: a key is never empty.
CREATE TABLE IF NOT EXISTS varve_move.ranges (
  move     text NOT NULL,
  tbl      int NOT NULL,
  side     int NOT NULL,
  from_key bytea NOT NULL,
  to_key   bytea NOT NULL,
  done     boolean NOT NULL,
  rows     bigint NOT NULL,
  sum      text NOT NULL,
  position text NOT NULL,
  at       timestamptz,
  PRIMARY KEY (move, tbl, side, from_key)
);
