package transfer

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/store"
)

// rowPoint is a row of knowledge_points, perhaps with its schedules nested, or a row of
// review_schedules, perhaps with its point nested: the tables of the original service (see package
// learn). Embeddings and users are ignored.
type rowPoint struct {
	ID        string     `json:"id"`
	Question  *string    `json:"question"`
	Answer    *string    `json:"answer"`
	Created   rowTime    `json:"created_at"`
	Updated   rowTime    `json:"updated_at"`
	InPlan    *bool      `json:"is_in_review_plan"`
	Schedules []rowPoint `json:"review_schedules"`

	PointID     string    `json:"knowledge_point_id"`
	Date        string    `json:"review_date"`
	Number      int       `json:"review_number"`
	Completed   bool      `json:"completed"`
	CompletedAt rowTime   `json:"completed_at"`
	Recall      *string   `json:"recall_text"`
	Point       *rowPoint `json:"knowledge_points"`
}

// rowTime is a time as PostgreSQL prints it, or null.
type rowTime struct{ time.Time }

func (t *rowTime) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil || s == nil {
		return err
	}
	var ok bool
	if t.Time, ok = parseTime(*s, time.UTC); !ok {
		return &json.UnmarshalTypeError{Value: noTime}
	}
	return nil
}

// rowsReader joins the two tables. It collects the schedules first, because they may come after
// their points.
type rowsReader struct {
	*itemReader
	sittings map[string][]store.Sitting // by point
}

func (in *itemReader) readRows(r io.ReaderAt, size int64) error {
	rows := &rowsReader{in, make(map[string][]store.Sitting)}
	head := make([]byte, min(size, 4096))
	n, _ := r.ReadAt(head, 0)
	first := bytes.TrimSpace(bytes.TrimPrefix(head[:n], byteOrderMark))
	var err error
	if len(first) > 0 && (first[0] == '{' || first[0] == '[') {
		err = rows.readJSONRows(r, size)
	} else {
		err = rows.readCSVRows(r, size)
	}
	if err != nil {
		return err
	}
	return rows.orphans()
}

// orphans delivers the sittings whose points are not in the file.
func (in *rowsReader) orphans() error {
	var ids []string
	for id := range in.sittings {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := in.item(0, in.join(Item{ID: id, Origin: "learn:" + id, InPlan: true}, in.sittings[id])); err != nil {
			return err
		}
	}
	return nil
}

func (in *rowsReader) readJSONRows(r io.ReaderAt, size int64) error {
	quiet := &itemReader{ctx: in.ctx, o: ReadOptions{}}
	if err := in.walk(newJSONStream(quiet, r, size), in.collect); err != nil {
		return err
	}
	return in.walk(newJSONStream(in.itemReader, r, size), in.point)
}

// walk visits the rows of both forms: an object with two tables, or an array.
func (in *rowsReader) walk(s *jsonStream, f func(row int, raw []byte) error) error {
	if array, err := s.open(); err != nil {
		return err
	} else if array {
		return s.array(f)
	}
	known := false
	err := s.object(func(key string) error {
		if key != "knowledge_points" && key != "review_schedules" {
			return s.skip()
		}
		known = true
		return s.listed(f)
	})
	if err == nil && !known {
		return unreadable(msgTables)
	}
	return err
}

// collect is the first pass: it collects the rows of schedules outside points.
func (in *rowsReader) collect(row int, raw []byte) error {
	if !bytes.Contains(raw, []byte(`"knowledge_point_id"`)) {
		return nil
	}
	var p rowPoint
	switch err := json.Unmarshal(raw, &p); {
	case err != nil && onlySchedule(raw):
		in.reject(row, string(raw), describeJSONError(err))
		return nil
	case err != nil || p.PointID == "":
		return nil // second pass
	}
	if len(in.sittings) > in.o.MaxItems {
		return &TooManyError{in.o.MaxItems}
	}
	sitting, why := p.sitting()
	if why != nil {
		in.reject(row, string(raw), why)
		return nil
	}
	in.sittings[p.PointID] = append(in.sittings[p.PointID], sitting)
	return nil
}

// onlySchedule reports whether a row is a schedule without its point, which the first pass has
// handled.
func onlySchedule(raw []byte) bool {
	return !bytes.Contains(raw, []byte(`"question"`)) && bytes.Contains(raw, []byte(`"knowledge_point_id"`))
}

// point is the second pass: it delivers a point.
func (in *rowsReader) point(row int, raw []byte) error {
	if onlySchedule(raw) {
		return nil
	}
	var p rowPoint
	if err := json.Unmarshal(raw, &p); err != nil {
		in.reject(row, string(raw), describeJSONError(err))
		return nil
	}
	if p.PointID != "" { // a schedule
		if p.Point == nil || in.sittings[p.PointID] == nil {
			return nil
		}
		p = *p.Point
	}
	if p.Question == nil || p.Answer == nil || p.ID == "" {
		in.reject(row, string(raw), msgNoPoint.Errorf())
		return nil
	}
	sittings := in.sittings[p.ID]
	delete(in.sittings, p.ID)
	for i := range p.Schedules {
		sitting, why := p.Schedules[i].sitting()
		if why != nil {
			in.reject(row, *p.Question, why)
			continue
		}
		sittings = append(sittings, sitting)
	}
	return in.item(row, in.join(p.item(), sittings))
}

func (p *rowPoint) item() Item {
	return Item{ID: p.ID, Origin: "learn:" + p.ID, Question: *p.Question, Answer: *p.Answer, Created: p.Created.Time,
		Updated: p.Updated.Time,
		InPlan:  p.InPlan == nil || *p.InPlan}
}

func (p *rowPoint) sitting() (s store.Sitting, why error) {
	date, _, _ := strings.Cut(p.Date, "T")
	day, err := store.ParseDay(date)
	switch {
	case err != nil:
		return s, msgReviewDate.Errorf(date)
	case p.Number < 0 || p.Number > 10_000:
		return s, msgImpossible.Errorf()
	}
	s = store.Sitting{ID: p.ID, Day: day, Number: p.Number, Created: p.Created.Time}
	if p.Recall != nil {
		s.Recall = clean(*p.Recall)
	}
	if p.Completed {
		if s.Completed = p.CompletedAt.Time; s.Completed.IsZero() {
			s.Completed = day.Time()
		}
	}
	return s, nil
}

// join adds to an item its sittings, and a history of the completed ones, without grades.
func (in *rowsReader) join(it Item, sittings []store.Sitting) Item {
	slices.SortStableFunc(sittings, func(a, b store.Sitting) int {
		if a.Number != b.Number {
			return a.Number - b.Number
		}
		return int(a.Day - b.Day)
	})
	it.Sittings = sittings
	for _, s := range sittings {
		if !s.Completed.IsZero() {
			it.History = append(it.History, store.LogEntry{ID: s.ID, Kind: store.LogReview, At: s.Completed,
				Recall: s.Recall, Score: -1})
		}
	}
	slices.SortStableFunc(it.History, func(a, b store.LogEntry) int { return a.At.Compare(b.At) })
	in.o.elapsed(it.History)
	return it
}

// readCSVRows reads one of the two tables.
func (in *rowsReader) readCSVRows(r io.ReaderAt, size int64) error {
	t := newTable(in.itemReader, r, size)
	switch err := t.findHeader(in.itemReader); {
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	}
	if t.header.index("id") < 0 {
		return unreadable(msgColumnID)
	}
	schedules := t.header.index("knowledge_point_id") >= 0
	for {
		row, cells, err := t.next(in.itemReader)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		p, why := t.rowPoint(cells)
		switch {
		case why == nil && schedules:
			var s store.Sitting
			if s, why = p.sitting(); why == nil {
				in.sittings[p.PointID] = append(in.sittings[p.PointID], s)
			}
			if len(in.sittings) > in.o.MaxItems {
				return &TooManyError{in.o.MaxItems}
			}
		case why == nil:
			if err := in.item(row, p.item()); err != nil {
				return err
			}
		}
		if why != nil {
			in.reject(row, strings.Join(cells[:min(len(cells), 4)], ","), why)
		}
	}
}

func (t *table) rowPoint(cells []string) (p rowPoint, why error) {
	get := func(name string) string { return t.header.cell(cells, name) }
	question, answer, recall, inPlan := get("question"), get("answer"), get("recall_text"), !isNo(get("in_plan"))
	p = rowPoint{ID: get("id"), Question: &question, Answer: &answer, InPlan: &inPlan,
		PointID: get("knowledge_point_id"), Date: get("review_date"),
		Completed: isYes(get("completed")), Recall: &recall}
	if number := get("review_number"); number != "" {
		var err error
		if p.Number, err = strconv.Atoi(number); err != nil {
			return p, msgNumber.Errorf()
		}
	}
	for name, into := range map[string]*time.Time{"created_at": &p.Created.Time, "updated_at": &p.Updated.Time,
		"completed_at": &p.CompletedAt.Time} {
		var ok bool
		if *into, ok = parseTime(get(name), time.UTC); !ok {
			return p, msgNoTime.Errorf(name)
		}
	}
	if t.header.index("knowledge_point_id") >= 0 && p.PointID == "" {
		return p, msgNoPointID.Errorf()
	}
	return p, nil
}
