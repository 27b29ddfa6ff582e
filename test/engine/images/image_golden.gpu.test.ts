import { testVisionAnswers } from "../../support/images/vision_answers.ts";

testVisionAnswers("mini-smolvlm");
testVisionAnswers("mini-qwen2.5-vl");
