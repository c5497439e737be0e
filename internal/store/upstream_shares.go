package store

import (
	"context"
	"database/sql"
	"strings"
)

// sharedWith is the condition that a row of upstreams is shared with a person who is not its owner:
// a parameter, or a column.
func sharedWith(person string) string { return isShared("upstream", person) }

// isShared is the condition that a row of upstreams or bots, whose name has no plural's s here, is
// shared with a person who is not its owner. What somebody who is no admin any more has shared is
// not.
func isShared(thing, person string) string {
	return strings.NewReplacer("THING", thing, "WHO", person).Replace(`(THINGs.owner <> WHO
		AND EXISTS (SELECT 1 FROM people WHERE people.id = THINGs.owner AND people.role = 'admin')
		AND (THINGs.everybody = 1 OR EXISTS (SELECT 1 FROM THING_people
			WHERE THING_people.THING = THINGs.number AND THING_people.person = WHO)))`)
}

// share sets with whom a row of upstreams or bots is shared, as in isShared.
func share(ctx context.Context, tx *sql.Tx, thing string, number int64, everybody bool, people []string) error {
	all := 0
	if everybody {
		all, people = 1, nil
	}
	if err := changed(tx.ExecContext(ctx, `UPDATE `+thing+`s SET everybody = $2 WHERE number = $1`, number,
		all)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM `+thing+`_people WHERE `+thing+` = $1`, number); err != nil {
		return err
	}
	for _, p := range people {
		if _, err := tx.ExecContext(ctx, `INSERT INTO `+thing+`_people (`+thing+`, person) VALUES ($1, $2)`, number,
			p); err != nil {
			return err
		}
	}
	return nil
}

// Share sets with whom an upstream is shared: everybody, or some people; nobody ends it. The
// sign-ins of those with whom it is not shared any more are deleted.
func (t Upstreams) Share(ctx context.Context, number int64, everybody bool, people []string) error {
	return t.db.changeTools(ctx, func(tx *sql.Tx) error {
		if err := share(ctx, tx, "upstream", number, everybody, people); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM upstream_signins WHERE upstream = $1 AND NOT EXISTS (
			SELECT 1 FROM upstreams WHERE number = $1 AND (upstreams.owner = upstream_signins.person OR `+
			sharedWith("upstream_signins.person")+`))`, number)
		return err
	})
}

// SharedWith lists the upstreams of others that are shared with a person, by number, at most 1,000.
func (t Upstreams) SharedWith(ctx context.Context, person string) ([]Upstream, error) {
	return all(ctx, t.db, readUpstream, `SELECT `+upstreamColumns+` FROM upstreams WHERE `+sharedWith("$1")+
		` ORDER BY number LIMIT 1000`, person)
}

// Shares lists the ids of the people with whom upstreams are shared by name, by upstream.
func (t Upstreams) Shares(ctx context.Context) (map[int64][]string, error) {
	return sharesOf(ctx, t.db, "upstream")
}

// sharesOf lists the ids of the people with whom upstreams or bots, as in isShared, are shared by
// name, by number.
func sharesOf(ctx context.Context, db *DB, thing string) (map[int64][]string, error) {
	out := map[int64][]string{}
	_, err := all(ctx, db, func(s scanner) (number int64, err error) {
		var person string
		if err = s.Scan(&number, &person); err == nil {
			out[number] = append(out[number], person)
		}
		return number, err
	}, `SELECT `+thing+`, person FROM `+thing+`_people ORDER BY `+thing+`, person`)
	return out, err
}

// SignedIn returns how many people, besides its owner, have a connection to each upstream.
func (t Upstreams) SignedIn(ctx context.Context) (map[int64]int, error) {
	list, err := UpstreamSignIns(t).Connections(ctx)
	out := map[int64]int{}
	for _, c := range list {
		if c.Member {
			out[c.Upstream]++
		}
	}
	return out, err
}

// UpstreamConnection is a sign-in with which an instance connects.
type UpstreamConnection struct {
	Upstream int64
	Person   string
	// Told is incremented when the person has signed in or out.
	Told int64
	// Member means that the person is not the owner of the upstream.
	Member bool
}

// Connections lists the sign-ins of owners, and those of others with which to connect, by upstream
// and person.
func (t UpstreamSignIns) Connections(ctx context.Context) ([]UpstreamConnection, error) {
	return all(ctx, t.db, func(s scanner) (c UpstreamConnection, err error) {
		var member int64
		err = s.Scan(&c.Upstream, &c.Person, &c.Told, &member)
		c.Member = member != 0
		return c, err
	}, `SELECT s.upstream, s.person, s.told, CASE WHEN upstreams.owner = s.person THEN 0 ELSE 1 END
		FROM upstream_signins s JOIN upstreams ON upstreams.number = s.upstream
		WHERE upstreams.owner = s.person OR s.connects = 1 AND `+sharedWith("s.person")+`
		ORDER BY s.upstream, s.person`)
}
