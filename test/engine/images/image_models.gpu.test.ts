import { testVisionAnswers } from "../../support/images/vision_answers.ts";

testVisionAnswers("mini-llava");
testVisionAnswers("mini-deepseek-vl2");
