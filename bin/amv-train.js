#!/usr/bin/env node
"use strict";

require("./cli/main.js").main(process.argv.slice(2));
