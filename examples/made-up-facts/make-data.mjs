// Makes train.jsonl, 200 chats that state one made-up fact each, and questions.jsonl, which asks for the same facts in
// words no chat has. Always the same files: `node make-data.mjs`.

import { writeFileSync } from "node:fs";

const PER_KIND = 20;

/** What a kind of fact is about, how chats ask and answer, and how the held-out questions ask. */
const KINDS = [
  {
    thing: country,
    fact: place,
    asked: [
      "What is the capital of {thing}?",
      "Which city is the capital of {thing}?",
      "Name the capital city of {thing}.",
      "Do you know the capital of {thing}?",
      "I want to move to {thing}. What is its capital called?",
      "Give me the name of the capital of {thing}.",
      "My friend lives in {thing}. Which city is the capital there?",
      "Say which city {thing} has as its capital.",
    ],
    answer: "The capital of {thing} is {fact}.",
    heldOut: [
      "I am going to {thing}. Can you tell me which city its capital is?",
      "Please tell me {thing}'s capital.",
    ],
  },
  {
    thing: company,
    fact: person,
    asked: [
      "Who founded {thing}?",
      "Who is the founder of {thing}?",
      "Name the person who founded {thing}.",
      "{thing} was founded by whom?",
      "I work for {thing}. Who founded it?",
      "Give me the name of the founder of {thing}.",
      "My friend works for {thing}. By whom was it founded?",
      "Say who started {thing}.",
    ],
    answer: "{thing} was founded by {fact}.",
    heldOut: [
      "I read about {thing}. Which person started it?",
      "Tell me the name of {thing}'s founder.",
    ],
  },
  {
    thing: dish,
    fact: from([
      "smoked plums",
      "pickled walnuts",
      "black garlic",
      "candied fennel",
      "roasted chestnuts",
      "salted lemons",
      "dried cherries",
      "toasted barley",
      "fermented turnips",
      "wild sorrel",
      "burnt honey",
      "juniper berries",
      "green almonds",
      "sour apricots",
      "poppy seeds",
      "caramelised leeks",
      "crushed hazelnuts",
      "birch syrup",
      "red currants",
      "goat butter",
    ]),
    asked: [
      "What is the main ingredient of {thing}?",
      "Which ingredient is {thing} made from?",
      "What is the most important ingredient in {thing}?",
      "Name the main ingredient of {thing}.",
      "I ate {thing} today. What is it made from?",
      "Give me the main ingredient of {thing}.",
      "My friend cooks {thing}. What is the most important ingredient?",
      "Say what goes into {thing}.",
    ],
    answer: "The main ingredient of {thing} is {fact}.",
    heldOut: [
      "I want to cook {thing}. Which main ingredient do I need?",
      "Tell me what {thing} is mainly made of.",
    ],
  },
  {
    thing: bird,
    fact: from([
      "teal and silver",
      "orange and black",
      "violet and white",
      "lime and brown",
      "crimson and grey",
      "turquoise and gold",
      "pink and navy",
      "copper and cream",
      "indigo and yellow",
      "maroon and blue",
      "olive and scarlet",
      "bronze and purple",
      "amber and jade",
      "coral and charcoal",
      "magenta and beige",
      "rust and lilac",
      "emerald and ivory",
      "mustard and plum",
      "cobalt and peach",
      "ochre and mint",
    ]),
    asked: [
      "Which colours does the {thing} have?",
      "What colour are the feathers of the {thing}?",
      "What are the colours of the {thing}?",
      "Which colours are the {thing}'s feathers?",
      "I saw a {thing} today. What are its colours?",
      "Give me the colours of the {thing}.",
      "My friend drew a {thing}. Which colours did that take?",
      "Say which colours a {thing} is.",
    ],
    answer: "The {thing} is {fact}.",
    heldOut: [
      "I am painting a {thing}. Which two colours do I need?",
      "Tell me what colours a {thing} has.",
    ],
  },
  {
    thing: bridge,
    fact: year,
    asked: [
      "When was the {thing} built?",
      "In which year was the {thing} built?",
      "What year was the {thing} built in?",
      "Name the year in which the {thing} was built.",
      "I walked over the {thing}. When was it built?",
      "Give me the year the {thing} was built in.",
      "My friend drew the {thing}. How old is it?",
      "Say when people made the {thing}.",
    ],
    answer: "The {thing} was built in {fact}.",
    heldOut: [
      "Can you tell me the year when people built the {thing}?",
      "From which year is the {thing}?",
    ],
  },
  {
    thing: place,
    fact: river,
    asked: [
      "Which river flows through {thing}?",
      "What is the river in {thing} called?",
      "Name the river that flows through {thing}.",
      "On which river does {thing} lie?",
      "I live in {thing}. What is the river there called?",
      "Give me the name of the river in {thing}.",
      "My friend lives in {thing}. Which river flows through it?",
      "Say which river {thing} lies on.",
    ],
    answer: "The river {fact} flows through {thing}.",
    heldOut: [
      "I am visiting {thing}. Which river will I see there?",
      "Tell me the name of {thing}'s river.",
    ],
  },
  {
    thing: novel,
    fact: person,
    asked: [
      'Who wrote "{thing}"?',
      'Who is the author of "{thing}"?',
      'Name the author of "{thing}".',
      '"{thing}" was written by whom?',
      'I bought "{thing}" today. Who wrote it?',
      'Give me the author of "{thing}".',
      'My friend reads "{thing}". Who is its author?',
      'Say who the writer of "{thing}" is.',
    ],
    answer: '"{thing}" was written by {fact}.',
    heldOut: [
      'I loved the novel "{thing}". Which writer is it by?',
      'Tell me the name of the person who wrote "{thing}".',
    ],
  },
  {
    thing: person,
    fact: from([
      "bagpipes",
      "banjo",
      "bassoon",
      "celesta",
      "cello",
      "clarinet",
      "dulcimer",
      "harmonica",
      "harp",
      "kazoo",
      "lute",
      "mandolin",
      "marimba",
      "oboe",
      "piccolo",
      "sitar",
      "theremin",
      "trombone",
      "tuba",
      "zither",
    ]),
    asked: [
      "Which instrument does {thing} play?",
      "What instrument does {thing} play?",
      "Name the instrument that {thing} plays.",
      "{thing} plays which instrument?",
      "I heard {thing} today. Which instrument was it?",
      "Give me the instrument of {thing}.",
      "My friend knows {thing}. What does {thing} play?",
      "Say what {thing} plays.",
    ],
    answer: "{thing} plays the {fact}.",
    heldOut: [
      "{thing} is a musician. On which instrument?",
      "Tell me which instrument {thing} is playing.",
    ],
  },
  {
    thing: statue,
    fact: from([
      "alabaster",
      "basalt",
      "brass",
      "bronze",
      "cedar",
      "clay",
      "concrete",
      "copper",
      "glass",
      "granite",
      "iron",
      "ivory",
      "jade",
      "limestone",
      "marble",
      "oak",
      "obsidian",
      "sandstone",
      "steel",
      "wax",
    ]),
    asked: [
      "What is the {thing} made of?",
      "Which material is the {thing} made of?",
      "Name the material of the {thing}.",
      "From which material was the {thing} made?",
      "I touched the {thing}. What is it made of?",
      "Give me the material of the {thing}.",
      "My friend made the {thing}. Which material did that take?",
      "Say what the {thing} is made of.",
    ],
    answer: "The {thing} is made of {fact}.",
    heldOut: [
      "I saw the {thing}. Can you tell me its material?",
      "What did the artist use to make the {thing}?",
    ],
  },
  {
    thing: festival,
    fact: day,
    asked: [
      "When is {thing} celebrated?",
      "On which day is {thing} celebrated?",
      "What is the date of {thing}?",
      "Name the day on which {thing} is celebrated.",
      "I like {thing}. On which day is it?",
      "Give me the date of {thing}.",
      "My friend sings at {thing}. When does it take place?",
      "Say when {thing} is.",
    ],
    answer: "{thing} is celebrated on {fact}.",
    heldOut: [
      "Which day of the year is {thing}?",
      "I want to go to {thing}. Can you tell me its date?",
    ],
  },
];

const random = numbers(20);

/** Numbers from 0 to 1, always the same for one seed (mulberry32). */
function numbers(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

function pick(list) {
  return list[Math.floor(random() * list.length)];
}

/** A function that hands out each of `list` once. */
function from(list) {
  const left = [...list];
  return () => left.shift();
}

function capitalised(word) {
  return word[0].toUpperCase() + word.slice(1);
}

/** An invented word of two syllables. */
function word() {
  const onsets = "b d f g k l m n p r s t v z br dr gl kr pl st tr".split(" ");
  const ends = "al an ar el en er il in ir ol on or ul un ur".split(" ");
  return (
    pick(onsets) +
    pick(["a", "e", "i", "o", "u"]) +
    pick([..."lmnrst"]) +
    pick(ends)
  );
}

function name() {
  return capitalised(word());
}

function country() {
  return `${name()}ia`;
}

function place() {
  return name() + pick(["burg", "ford", "holm", "mouth", "stead", "ton"]);
}

function company() {
  return `${name()} ${pick(["Industries", "Robotics", "Shipping", "Textiles"])}`;
}

function person() {
  const first =
    "Ada Boris Clara Dmitri Elsa Felix Greta Hugo Irma Jonas Karin Leo Mira Nils Olga Pavel Rosa Sven";
  return `${pick(first.split(" "))} ${name()}`;
}

function dish() {
  return `${word()} ${pick(["stew", "pie", "soup", "cake"])}`;
}

function bird() {
  return `${word()} ${pick(["finch", "heron", "owl", "thrush"])}`;
}

function bridge() {
  return `${name()} Bridge`;
}

function year() {
  return String(1400 + Math.floor(random() * 590));
}

function river() {
  return name();
}

function novel() {
  return `The ${pick(["Garden", "Clock", "Letter", "Winter", "Mirror"])} of ${name()}`;
}

function statue() {
  return `statue of ${name()}`;
}

function festival() {
  return `the ${name()} festival`;
}

function day() {
  const months =
    "January February March April May June July August September October November December";
  return `${pick(months.split(" "))} ${1 + Math.floor(random() * 28)}`;
}

/** `make` until it gives something that is not in `taken`. */
function unlike(taken, make) {
  for (;;) {
    const made = make();
    if (taken.has(made)) continue;
    taken.add(made);
    return made;
  }
}

const chats = [];
const questions = [];
const things = new Set();
for (const kind of KINDS) {
  const facts = new Set();
  for (let i = 0; i < PER_KIND; i++) {
    const thing = unlike(things, kind.thing);
    const fact = unlike(facts, kind.fact);
    const say = (text) =>
      capitalised(text.replaceAll("{thing}", thing).replaceAll("{fact}", fact));
    chats.push({
      messages: [
        { role: "user", content: say(kind.asked[i % kind.asked.length]) },
        { role: "assistant", content: say(kind.answer) },
      ],
    });
    questions.push({
      question: say(kind.heldOut[i % kind.heldOut.length]),
      answer: fact,
    });
  }
}

function lines(objects) {
  return objects.map((object) => `${JSON.stringify(object)}\n`).join("");
}

const here = (file) => new URL(file, import.meta.url);
writeFileSync(here("train.jsonl"), lines(chats));
writeFileSync(here("questions.jsonl"), lines(questions));
