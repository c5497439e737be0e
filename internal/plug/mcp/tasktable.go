package mcp

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// taskTable has the tasks of this instance. It is safe for concurrent use.
type taskTable struct {
	mu     sync.Mutex
	work   sync.WaitGroup // running calls
	closed bool
	all    map[string]*task
	perKey map[string]*taskUse
	kept   int // bytes of all results
}

// taskUse is what the tasks of one key take.
type taskUse struct{ tasks, bytes int }

func newTaskTable() *taskTable {
	return &taskTable{all: map[string]*task{}, perKey: map[string]*taskUse{}}
}

// start runs a call. It returns false if the server is being closed.
func (t *taskTable) start(run func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.work.Go(run)
	return true
}

// close waits for the running calls, whose contexts have ended, and forgets all tasks.
func (t *taskTable) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.work.Wait()
	for id, x := range t.list() {
		x.mu.Lock()
		if x.expiry != nil {
			x.expiry.Stop()
		}
		x.mu.Unlock()
		t.remove(id)
		x.release()
	}
}

// add adds a task. It returns false if there are too many, or too much is kept.
func (t *taskTable) add(id string, x *task) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	use := t.perKey[x.owner.Key]
	if use == nil {
		use = &taskUse{}
	}
	if len(t.all) >= maxTasks || use.tasks >= maxTasksPerKey || t.kept >= maxTaskBytes ||
		use.bytes >= maxTaskBytesPerKey {
		return false
	}
	t.all[id], t.perKey[x.owner.Key] = x, use
	use.tasks++
	return true
}

// keep makes room for the result of a task. It returns false if there is none.
func (t *taskTable) keep(id string, size int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.all[id]
	if x == nil {
		return true // it has expired, and so does its result
	}
	use := t.perKey[x.owner.Key]
	if t.kept+size > maxTaskBytes || use.bytes+size > maxTaskBytesPerKey {
		return false
	}
	x.size = size
	t.kept, use.bytes = t.kept+size, use.bytes+size
	return true
}

// find returns a task of an owner, or nil.
func (t *taskTable) find(id string, owner taskOwner) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.all[id]; x != nil && x.owner == owner {
		return x
	}
	return nil
}

// remove forgets a task. It returns false if that has happened already.
func (t *taskTable) remove(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.all[id]
	if x == nil {
		return false
	}
	delete(t.all, id)
	use := t.perKey[x.owner.Key]
	t.kept, use.bytes = t.kept-x.size, use.bytes-x.size
	if use.tasks--; use.tasks == 0 {
		delete(t.perKey, x.owner.Key)
	}
	return true
}

func (t *taskTable) list() map[string]*task {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string]*task, len(t.all))
	for id, x := range t.all {
		out[id] = x
	}
	return out
}

// count returns the number of tasks in these states.
func (t *taskTable) count(states ...string) (n int) {
	for _, x := range t.list() {
		x.mu.Lock()
		for _, s := range states {
			if x.status == s {
				n++
			}
		}
		x.mu.Unlock()
	}
	return n
}

func registerTaskGauges(s *Server) {
	for state, statuses := range map[string][]string{
		"working": {taskWorking}, "input_required": {taskInputRequired},
		"ended": {taskCompleted, taskFailed, taskCancelled},
	} {
		s.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_mcp_tasks",
			Help: "Calls of MCP clients that fetch the result later.", ConstLabels: prometheus.Labels{"state": state}},
			func() float64 { return float64(s.tasks.count(statuses...)) }))
	}
}
