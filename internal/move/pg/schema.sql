-- The schema varve_move: what a move keeps in a PostgreSQL database.
-- Every statement can be repeated.
CREATE SCHEMA IF NOT EXISTS varve_move;
CREATE TABLE IF NOT EXISTS varve_move.version (version int NOT NULL);

-- Streams of this database's changes: whose log it is, and where it starts.
CREATE TABLE IF NOT EXISTS varve_move.streams (
  name     text PRIMARY KEY,
  move     text NOT NULL,
  system   text NOT NULL,
  timeline int NOT NULL,
  start    pg_lsn,
  opened   timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Writers of other sides' changes into this database. The epoch grows with
-- every writer that is opened; position commits with the rows it covers.
CREATE TABLE IF NOT EXISTS varve_move.applied (
  stream   text PRIMARY KEY,
  move     text NOT NULL,
  epoch    bigint NOT NULL,
  pid      int NOT NULL,
  started  timestamptz NOT NULL,
  position text NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS varve_move.progress (
  stream text NOT NULL,
  key    text NOT NULL COLLATE "C",
  value  text NOT NULL,
  PRIMARY KEY (stream, key)
);

-- Ends a writer's transaction: its position and progress. A writer that was
-- overtaken fails here, before anything of it is durable. Where the session has
-- a replication origin, its commit gets a place there, and a time of its own: a
-- session's commits would else all carry the time of its first.
CREATE OR REPLACE FUNCTION varve_move.advance(s text, e bigint, p text, keys text[], vals text[], origin pg_lsn) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE varve_move.applied SET position = p WHERE stream = s AND epoch = e;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'another writer has taken over stream %', s USING ERRCODE = 'VM002';
  END IF;
  IF origin IS NOT NULL THEN
    PERFORM pg_replication_origin_xact_setup(origin, clock_timestamp());
  END IF;
  IF cardinality(keys) > 0 THEN
    DELETE FROM varve_move.progress d USING unnest(keys, vals) AS u(k, v) WHERE d.stream = s AND d.key = u.k AND u.v = '';
    INSERT INTO varve_move.progress (stream, key, value) SELECT s, u.k, u.v FROM unnest(keys, vals) AS u(k, v) WHERE u.v <> ''
      ON CONFLICT (stream, key) DO UPDATE SET value = excluded.value;
  END IF;
END $$;

-- Which side's writes count, for the fence of a move's origin: changed in the
-- transaction that changes the move's record.
CREATE TABLE IF NOT EXISTS varve_move.fences (
  move      text PRIMARY KEY,
  canonical text NOT NULL CHECK (canonical IN ('origin', 'target'))
);
