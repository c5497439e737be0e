package main

import (
	"fmt"
	"strings"
	"time"
)

// pause is how long nobody has to speak before a question is complete.
const pause = 600 * time.Millisecond

// scene is what is said, and how fast the engines are.
type scene struct {
	name     string
	boards   int           // that talk; 0: as many as the command line says
	listen   time.Duration // from the end of the sound to the transcript
	think    time.Duration // from the question to the first token
	tokens   int           // in a second; 0: all at once
	speak    time.Duration // from a text to its first sound
	early    bool          // the recogniser tells what it hears at once
	question time.Duration
	sound    time.Duration // of an answer
	budgets  []budget
	cores    float64 // most that the server may use; 0: any number
	memory   float64 // most that the server may use, in MiB; 0: any size
	steady   bool    // no board may lack sound, and hardly a packet may be late
}

// mostLate is the part of the packets of a steady scene that may be late.
const mostLate = 0.001

// idle is the scene in which nobody talks.
var idle = scene{name: "idle", boards: 300, cores: 0.5}

// budget is what a figure must not exceed.
type budget struct {
	stage  string
	part   float64 // quantile
	boards int     // number of boards up to which it holds
	most   time.Duration
}

var scenes = []scene{
	{name: "own", question: 1500 * time.Millisecond, sound: 2 * time.Second, budgets: []budget{
		{stageOwn, .95, 1, 60 * time.Millisecond}, {stageOwn, .95, 100, 150 * time.Millisecond},
		{stageStart, .95, 1, 20 * time.Millisecond}}},
	{name: "early", listen: 150 * time.Millisecond, think: 400 * time.Millisecond, tokens: 30,
		speak: 300 * time.Millisecond, early: true, question: 1500 * time.Millisecond, sound: 2 * time.Second,
		budgets: []budget{{stageAll, .5, 1, 1150 * time.Millisecond}}},
	{name: "late", listen: 150 * time.Millisecond, think: 400 * time.Millisecond, tokens: 30,
		speak: 300 * time.Millisecond, question: 1500 * time.Millisecond, sound: 2 * time.Second,
		budgets: []budget{{stageAll, .5, 1, 1650 * time.Millisecond}}},
	{name: "load", boards: 100, listen: 150 * time.Millisecond, think: 400 * time.Millisecond, tokens: 30,
		speak: 300 * time.Millisecond, early: true, question: 3 * time.Second, sound: 5 * time.Second,
		budgets: []budget{{stageOwn, .95, 100, 150 * time.Millisecond}}, cores: 1.6, memory: 600, steady: true},
}

func named(name string) func(scene) bool { return func(s scene) bool { return s.name == name } }

func (s scene) boardsOr(given []int) []int {
	if s.boards > 0 {
		return []int{s.boards}
	}
	return given
}

// answer returns the tokens of the answer to a question.
func (s scene) answer(number int) []string {
	return strings.Split(fmt.Sprintf("Place| %d| is| sunny|,| and| there| is| hardly| any| wind|."+
		"| It| stays| warm| until| the| evening|.", number), "|")
}

// spoken returns how long a part of an answer sounds.
func (s scene) spoken(text string) time.Duration {
	whole := letters(strings.Join(s.answer(1), ""))
	return s.sound * time.Duration(letters(text)) / time.Duration(whole)
}
