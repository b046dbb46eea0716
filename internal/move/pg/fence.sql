-- The fence of one side of a move. The words in braces are filled in.
-- Until is 0 while the fence is open, the greatest bigint while it is kept, and
-- else the microsecond since 1970 at which it lifts itself. A sequence holds it
-- because no snapshot hides a sequence's value, at any isolation level.
CREATE SEQUENCE IF NOT EXISTS varve_move.{until} AS bigint MINVALUE 0 START 0;
CREATE SEQUENCE IF NOT EXISTS varve_move.{generation} AS bigint MINVALUE 0 START 0;

CREATE OR REPLACE FUNCTION varve_move.{function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  u bigint;
  c text;
BEGIN
  IF current_setting('varve_move.pass', true) = {pass} THEN
    RETURN NULL; -- the move's own writer
  END IF;
  -- Held to the transaction's end: who raises the fence waits for it.
  PERFORM pg_advisory_xact_lock_shared({class}, {lock});
  SELECT last_value INTO u FROM varve_move.{until};
  IF u = 0 THEN
    RETURN NULL;
  END IF;
  IF u < 9223372036854775807 AND u <= extract(epoch FROM clock_timestamp()) * 1000000 THEN
    -- The deadline has passed. The row lock waits for a switch under way, and a
    -- snapshot older than the last switch fails here instead of passing.
    SELECT canonical INTO c FROM varve_move.fences WHERE move = {move} FOR SHARE;
    IF {canonical} THEN
      -- Down for good, whatever the clock does: nobody may take it for up now.
      PERFORM setval('varve_move.{until}', 0);
      RETURN NULL;
    END IF;
  END IF;
  RAISE EXCEPTION 'table %.% is fenced by move %', TG_TABLE_SCHEMA, TG_TABLE_NAME, {move}
    USING ERRCODE = 'VM001', HINT = 'Its rows are being moved or have moved: write to the other side, or try again in a moment.';
END $$;
