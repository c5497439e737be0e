package test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Deleting a deck while points are added to it loses none: they move to the default deck and are
// counted there.
func TestLearnDeckGoes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, o store.Options) {
		place := newInstallation(o, "PATCHBAY_LIMITS_CALL_RATE=0")
		p := pupil{key: learning(t, place)}
		p.url = place.serve(t).url
		farFromMidnight(t, p)
		const rounds = 40
		var all sync.WaitGroup
		stop := make(chan struct{})
		for worker := range 3 {
			all.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					var made learned
					err := p.ask("create_knowledge_point", given{"question": fmt.Sprint(worker, " ", i), "answer": "a",
						"deck": "fleeting"}, &made)
					if err == nil && i%2 == 0 {
						err = p.ask("submit_review", given{"knowledge_point_id": made.ID, "grade": "easy"}, &struct{}{})
					}
					if err == nil && i%3 == 0 {
						err = p.ask("update_knowledge_point", given{"id": made.ID, "deck": "fleeting"}, &struct{}{})
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				file := "question,answer,deck,tags\n" + strings.Repeat(fmt.Sprintf("imported %d,a,fleeting,t\n", i),
					300)
				status, _, text, err := send(http.MethodPost, p.url+"/api/v1/learn/import?name=x.csv", p.key, "", file)
				if err != nil || status != http.StatusOK {
					t.Errorf("import %d: %d %s %v", i, status, text, err)
					return
				}
			}
		})
		for gone := 0; gone < rounds && !t.Failed(); {
			l, err := p.try("delete_deck", given{"name": "fleeting"})
			if _, none := errors.AsType[*refusal](err); none {
				continue // not created yet
			}
			must(t, err)
			if l.IsError {
				t.Fatal(l.text())
			}
			gone++
		}
		close(stop)
		all.Wait()
		p.call(t, "save_deck", given{"name": "fleeting"}, &struct{}{})
		p.call(t, "delete_deck", given{"name": "fleeting"}, &struct{}{})
		total := len(recount(t, p))
		listed, err := p.page("list_knowledge_points", given{"deck": "default"})
		must(t, err)
		if len(listed) != total {
			t.Errorf("%d of %d points are in the only deck there is", len(listed), total)
		}
	})
}

// An interrupted change of schedule is completed by repeating the request, and a point that still
// has its old plan does not leave the course.
func TestLearnScheduleSurvivesKill(t *testing.T) {
	const many = 5000
	place := newInstallation(store.Options{Folder: t.TempDir()}, "PATCHBAY_LIMITS_CALL_RATE=0")
	p := pupil{key: learning(t, place)}
	s := place.serve(t)
	p.url = s.url
	farFromMidnight(t, p)
	p.call(t, "save_deck", given{"name": "big"}, &struct{}{})
	if status, done, text := p.load(t, table(many), url.Values{"name": {"x.csv"},
		"deck": {"big"}}); status != http.StatusOK || done.Added != many {
		t.Fatalf("%d %s", status, text)
	}
	change := given{"name": "big", "settings": given{"schedule": "classic"}}
	rows := func(limit int) (plans map[int]int, first learned) {
		var page struct {
			Points []learned `json:"knowledge_points"`
		}
		p.call(t, "list_knowledge_points", given{"limit": limit}, &page)
		plans = map[int]int{}
		for _, x := range page.Points {
			plans[len(x.Schedules)]++
		}
		return plans, page.Points[0]
	}
	var changing sync.WaitGroup
	changing.Go(func() {
		if _, err := p.try("save_deck", change); err == nil {
			t.Error("it was done before the server died")
		}
	})
	for plans, _ := rows(1); plans[4] == 0; {
		plans, _ = rows(1)
	}
	s.kill()
	changing.Wait()
	p.url = place.serve(t).url
	_, begun := rows(1)
	p.call(t, "submit_review", given{"knowledge_point_id": begun.ID, "grade": "good", "early": true}, &struct{}{})
	p.call(t, "save_deck", change, &struct{}{})
	all, err := p.page("list_knowledge_points", given{"deck": "big"})
	must(t, err)
	wrong := 0
	for _, x := range all {
		if len(x.Schedules) != 4 || x.State != "review" {
			wrong++
		}
	}
	if len(all) != many || wrong > 0 {
		t.Errorf("%d of %d points have another plan", wrong, len(all))
	}
	recount(t, p)
}
