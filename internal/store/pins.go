package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"
)

// PinKey identifies something pinned of an upstream.
type PinKey struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// PinForm is a form in which a server offers something; an empty Content is one that it no longer
// offers.
type PinForm struct {
	PinKey
	Fingerprint string
	Content     []byte
}

// PinMark has the fingerprints of something pinned.
type PinMark struct {
	PinKey
	Fingerprint string // of the approved form; empty: none was approved
	Pending     string // of the form that waits for approval; empty: none waits
	Risk        string // of the form that waits
	noticed     string
	by          string // person who was offered the form that waits; empty: the owner
}

// IsTold reports whether an admin event was written for the form that waits.
func (m PinMark) IsTold() bool { return m.Pending == "" || m.Pending == m.noticed }

// Pin is something pinned with its contents. Empty PendingContent of a pin with a Pending form
// means that the server no longer offers it.
type Pin struct {
	PinMark
	Content, PendingContent []byte
	// Noticed is the time of the last admin event about it.
	Noticed, Approved time.Time
}

// ErrPinChanged means that another form waits for approval than the one that was approved.
var ErrPinChanged = errors.New("something else waits for approval")

const (
	// noticeInterval is the least time between two admin events about one upstream, so that a
	// server that keeps changing cannot fill the table.
	noticeInterval = 10 * time.Second
	// maxPins limits the rows of one upstream. What exceeds it has no mark.
	maxPins = 20_100
)

// Pins accesses the table of pins.
type Pins struct{ db *DB }

const pinMarks = `SELECT kind, name, fingerprint, pending, risk, noticed, pending_by FROM pins WHERE upstream = $1`

func readPinMark(s scanner) (m PinMark, err error) {
	return m, s.Scan(&m.Kind, &m.Name, &m.Fingerprint, &m.Pending, &m.Risk, &m.noticed, &m.by)
}

// Marks returns the marks of an upstream.
func (t Pins) Marks(ctx context.Context, upstream int64) ([]PinMark, error) {
	return all(ctx, t.db, readPinMark, pinMarks, upstream)
}

// List returns the pins of an upstream, with their contents.
func (t Pins) List(ctx context.Context, upstream int64) ([]Pin, error) {
	return all(ctx, t.db, func(s scanner) (p Pin, err error) {
		var content, pending string
		var noticed, approved int64
		err = s.Scan(&p.Kind, &p.Name, &p.Fingerprint, &p.Pending, &p.Risk, &content, &pending, &noticed, &approved)
		p.Content, p.PendingContent = []byte(content), []byte(pending)
		p.Noticed, p.Approved = fromMillis(noticed), fromMillis(approved)
		return p, err
	}, `SELECT kind, name, fingerprint, pending, risk, content, pending_content, noticed_at, approved_at FROM pins
		WHERE upstream = $1 ORDER BY kind, name`, upstream)
}

// PinKind says how a kind differs from tools: the first list of tools is approved, and later ones
// wait, as does what is no longer listed.
type PinKind struct {
	// First marks that the kind was listed before: while it is not stored, its forms are approved.
	First PinKey
	// Open means that what is new is approved, and that nothing is told of what is missing. At most
	// Most have a row; if there are more, those that are missing are forgotten.
	Open bool
	Most int
}

// PinRecord is a list that a server offers now.
type PinRecord struct {
	Upstream int64
	Forms    []PinForm
	// By is the person to whom it offers that, if the upstream is shared; empty: its owner.
	By string
	// Partial are the kinds of which Forms may lack some that are offered. All else is no longer
	// offered. What one person is not offered, others may be: of a shared upstream, only what By
	// was offered before is missed.
	Partial []string
	Kinds   map[string]PinKind
	shared  bool
	// Removed is the fingerprint of what is no longer offered.
	Removed string
	// Risk classifies a change between two contents.
	Risk func(before, after []byte) string
	At   time.Time
}

// Record stores what has changed in a list since it was approved. The first list of an upstream is
// approved. It returns the marks, and the changes that nobody has been told about: each is returned
// once, to one instance.
func (t Pins) Record(ctx context.Context, in PinRecord) (marks []PinMark, news []PinKey, err error) {
	if in.shared, err = t.isShared(ctx, in.Upstream); err != nil {
		return nil, nil, err
	}
	marks, err = t.Marks(ctx, in.Upstream)
	if err != nil || len(marks) > 0 && !in.hasNews(marks) {
		return marks, nil, err
	}
	err = retryDeadlock(func() error {
		return t.db.tx(ctx, func(tx *sql.Tx) (err error) {
			marks, news, err = in.store(ctx, tx)
			return err
		})
	})
	return marks, news, err
}

// isShared reports whether several people sign in to an upstream.
func (t Pins) isShared(ctx context.Context, upstream int64) (bool, error) {
	n, err := one(ctx, t.db, func(s scanner) (n int64, err error) { return n, s.Scan(&n) }, `SELECT COUNT(*)
		FROM upstreams WHERE number = $1 AND (everybody = 1 OR EXISTS (SELECT 1 FROM upstream_people
		WHERE upstream = $1))`, upstream)
	return n > 0, err
}

// settles reports whether a list decides about what waits for approval: in a shared upstream, the
// form that one person is offered is none of the others' business.
func (in *PinRecord) settles(m PinMark) bool { return !in.shared || m.by == in.By }

// hasNews reports whether a list differs from the stored one, or somebody has to be told.
func (in *PinRecord) hasNews(marks []PinMark) bool {
	known, has := make(map[PinKey]PinMark, len(marks)), map[string]int{}
	for _, m := range marks {
		known[m.PinKey] = m
		has[m.Kind]++
		if !m.IsTold() {
			return true
		}
	}
	listed := make(map[PinKey]bool, len(in.Forms))
	for _, f := range in.Forms {
		listed[f.PinKey] = true
		if m, ok := known[f.PinKey]; !ok && len(known) < maxPins && in.hasRoom(f.Kind, has[f.Kind]) ||
			ok && m.Pending != f.Fingerprint && (m.Fingerprint != f.Fingerprint || m.Pending != "" && in.settles(m)) {
			return true
		}
	}
	for _, m := range marks {
		if in.isGone(m, listed) && m.Pending != in.Removed {
			return true
		}
	}
	return false
}

// hasRoom reports whether something new of a kind gets a row. If those that are missing have to
// make room, there is news as well.
func (in *PinRecord) hasRoom(kind string, has int) bool {
	k := in.Kinds[kind]
	return !k.Open || has < k.Most || !slices.Contains(in.Partial, kind)
}

// isGone reports whether it is a change that something is not in the list.
func (in *PinRecord) isGone(m PinMark, listed map[PinKey]bool) bool {
	if in.shared && (m.Fingerprint != "" || m.by != in.By) {
		return false
	}
	return !listed[m.PinKey] && !slices.Contains(in.Partial, m.Kind) && !in.Kinds[m.Kind].Open
}

// makeRoom forgets what is missing of an open kind, if not everything has a row. What waits for
// approval stays. It returns the number of rows of each kind.
func (in *PinRecord) makeRoom(ctx context.Context, tx *sql.Tx, before []PinMark,
	listed map[PinKey]bool) (map[string]int, error) {
	has, wants := map[string]int{}, map[string]int{}
	known := make(map[PinKey]bool, len(before))
	for _, m := range before {
		has[m.Kind]++
		known[m.PinKey] = true
	}
	for key := range listed {
		if !known[key] {
			wants[key.Kind]++
		}
	}
	for _, m := range before {
		k := in.Kinds[m.Kind]
		if !k.Open || has[m.Kind]+wants[m.Kind] <= k.Most || listed[m.PinKey] || m.Pending != "" ||
			slices.Contains(in.Partial, m.Kind) {
			continue
		}
		if err := in.forget(ctx, tx, m.PinKey); err != nil {
			return nil, err
		}
		has[m.Kind]--
	}
	return has, nil
}

func (in *PinRecord) forget(ctx context.Context, tx *sql.Tx, k PinKey) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM pins WHERE upstream = $1 AND kind = $2 AND name = $3`, in.Upstream,
		k.Kind, k.Name)
	return err
}

// store is the transaction of Record. It locks the upstream: instances record one after the other.
func (in *PinRecord) store(ctx context.Context, tx *sql.Tx) ([]PinMark, []PinKey, error) {
	if err := changed(tx.ExecContext(ctx, `UPDATE upstreams SET pins = pins WHERE number = $1`,
		in.Upstream)); err != nil {
		return nil, nil, err
	}
	before, err := marksInTx(ctx, tx, in.Upstream)
	if err != nil {
		return nil, nil, err
	}
	known := make(map[PinKey]PinMark, len(before))
	for _, m := range before {
		known[m.PinKey] = m
	}
	listed := make(map[PinKey]bool, len(in.Forms))
	for _, f := range in.Forms {
		listed[f.PinKey] = true
	}
	has, err := in.makeRoom(ctx, tx, before, listed)
	if err != nil {
		return nil, nil, err
	}
	rows := len(before)
	for _, f := range in.Forms {
		m, ok := known[f.PinKey]
		if k := in.Kinds[f.Kind]; !ok {
			if rows++; rows > maxPins || k.Open && has[f.Kind] >= k.Most {
				continue
			}
			has[f.Kind]++
			_, again := known[k.First]
			err = in.insert(ctx, tx, f, len(before) == 0 || k.Open || k.First != PinKey{} && !again)
		} else {
			err = in.update(ctx, tx, m, f)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	for _, m := range before {
		if in.isGone(m, listed) {
			if err := in.remove(ctx, tx, m); err != nil {
				return nil, nil, err
			}
		}
	}
	return in.notice(ctx, tx)
}

func marksInTx(ctx context.Context, tx *sql.Tx, upstream int64) (out []PinMark, err error) {
	rows, err := tx.QueryContext(ctx, pinMarks, upstream)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		m, err := readPinMark(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, rows.Err()
}

func (in *PinRecord) insert(ctx context.Context, tx *sql.Tx, f PinForm, first bool) error {
	const query = `INSERT INTO pins (upstream, kind, name, fingerprint, content, pending, pending_content, risk,
		noticed, noticed_at, approved_at, pending_by) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '', 0, $9, $10)`
	var err error
	if first {
		_, err = tx.ExecContext(ctx, query, in.Upstream, f.Kind, f.Name, f.Fingerprint, string(f.Content), "", "", "",
			millis(in.At), "")
	} else {
		_, err = tx.ExecContext(ctx, query, in.Upstream, f.Kind, f.Name, "", "", f.Fingerprint, string(f.Content),
			in.Risk(nil, f.Content), int64(0), in.By)
	}
	return err
}

// update stores the form of something that has a row.
func (in *PinRecord) update(ctx context.Context, tx *sql.Tx, m PinMark, f PinForm) error {
	switch {
	case f.Fingerprint == m.Fingerprint && m.Pending == "", f.Fingerprint == m.Pending:
		return nil
	case f.Fingerprint == m.Fingerprint && !in.settles(m):
		return nil
	case f.Fingerprint == m.Fingerprint: // it is as it was approved again
		return in.setPending(ctx, tx, PinMark{PinKey: m.PinKey}, nil)
	}
	var approved string
	if err := tx.QueryRowContext(ctx, `SELECT content FROM pins WHERE upstream = $1 AND kind = $2 AND name = $3`,
		in.Upstream, m.Kind, m.Name).Scan(&approved); err != nil {
		return err
	}
	return in.setPending(ctx, tx, PinMark{PinKey: m.PinKey, Pending: f.Fingerprint,
		Risk: in.Risk([]byte(approved), f.Content)}, f.Content)
}

// remove stores that something is no longer offered. What was never approved is forgotten.
func (in *PinRecord) remove(ctx context.Context, tx *sql.Tx, m PinMark) error {
	if m.Fingerprint == "" {
		return in.forget(ctx, tx, m.PinKey)
	}
	if m.Pending == in.Removed {
		return nil
	}
	return in.setPending(ctx, tx, PinMark{PinKey: m.PinKey, Pending: in.Removed, Risk: in.Risk([]byte("{}"), nil)}, nil)
}

func (in *PinRecord) setPending(ctx context.Context, tx *sql.Tx, m PinMark, content []byte) error {
	_, err := tx.ExecContext(ctx, `UPDATE pins SET pending = $4, pending_content = $5, risk = $6, pending_by = $7
		WHERE upstream = $1 AND kind = $2 AND name = $3`, in.Upstream, m.Kind, m.Name, m.Pending, string(content),
		m.Risk, in.By)
	return err
}

// notice returns the marks, and the changes that it now marks as told.
func (in *PinRecord) notice(ctx context.Context, tx *sql.Tx) (marks []PinMark, news []PinKey, err error) {
	if marks, err = marksInTx(ctx, tx, in.Upstream); err != nil {
		return nil, nil, err
	}
	var last int64
	if err := tx.QueryRowContext(ctx, `SELECT pins_told FROM upstreams WHERE number = $1`,
		in.Upstream).Scan(&last); err != nil {
		return nil, nil, err
	}
	if last > 0 && in.At.Before(fromMillis(last).Add(noticeInterval)) {
		return marks, nil, nil
	}
	for i := range marks {
		m := &marks[i]
		if m.IsTold() {
			continue
		}
		if _, err := tx.ExecContext(ctx, `UPDATE pins SET noticed = pending, noticed_at = $4
			WHERE upstream = $1 AND kind = $2 AND name = $3`, in.Upstream, m.Kind, m.Name, millis(in.At)); err != nil {
			return nil, nil, err
		}
		m.noticed = m.Pending
		news = append(news, m.PinKey)
	}
	if len(news) > 0 {
		_, err = tx.ExecContext(ctx, `UPDATE upstreams SET pins_told = $2 WHERE number = $1`, in.Upstream, millis(in.At))
	}
	return marks, news, err
}

// Approve approves the forms with these fingerprints. It approves all or none, and returns
// [ErrPinChanged] if another form of one of them waits.
func (t Pins) Approve(ctx context.Context, upstream int64, forms []PinForm, removed string, at time.Time) error {
	return t.db.changeTools(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, `UPDATE upstreams SET pins = pins + 1 WHERE number = $1`,
			upstream)); err != nil {
			return err
		}
		for _, f := range forms {
			query, args := `UPDATE pins SET fingerprint = pending, content = pending_content, pending = '',
				pending_content = '', risk = '', approved_at = $5
				WHERE upstream = $1 AND kind = $2 AND name = $3 AND pending = $4`,
				[]any{upstream, f.Kind, f.Name, f.Fingerprint, millis(at)}
			if f.Fingerprint == removed {
				query, args = `DELETE FROM pins WHERE upstream = $1 AND kind = $2 AND name = $3 AND pending = $4`, args[:4]
			}
			err := changed(tx.ExecContext(ctx, query, args...))
			if f.Fingerprint == "" || errors.Is(err, ErrNotFound) {
				return ErrPinChanged
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// ByNumber returns an upstream.
func (t Upstreams) ByNumber(ctx context.Context, number int64) (Upstream, error) {
	return one(ctx, t.db, readUpstream, `SELECT `+upstreamColumns+` FROM upstreams WHERE number = $1`, number)
}
